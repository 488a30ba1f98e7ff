"""Names of functions of databases: those with effects, and those that only read.

Only functions that the parser of SQL does not know need to be in the second list.
"""

from __future__ import annotations

# Regular expressions of whole names, for every database.
EFFECTS = (
    # PostgreSQL and its extensions
    "setval|nextval|set_config|setseed",
    "lo_.*|lowrite|loread",
    "pg_(?:terminate|cancel)_backend|pg_(?:reload_conf|rotate_logfile\\w*|logfile_rotate|promote)",
    "pg_(?:notify|sleep\\w*|switch_\\w+|create\\w*|drop\\w*|replication\\w*|logical\\w*)",
    "pg_(?:backup|start_backup|stop_backup|wal_replay|export_snapshot|import_system)\\w*",
    "pg_(?:file|read|ls|stat_file|stat_reset|stat_clear|log_backend|copy)\\w*",
    "pg_(?:try_)?advisory_\\w*|pg_stat_statements_reset|pg_extension_config_dump",
    "brin_(?:summarize|desummarize)\\w*|gin_clean_pending_list",
    "dblink\\w*|(?:query|cursor|table|schema|database)_to_xml\\w*|ts_stat|ts_rewrite",
    "crosstab\\w*|connectby|http\\w*|query_export_to_s3|table_import_from_s3|invoke|schedule",
    "(?:un)?schedule\\w*|create_(?:hypertable|extension)\\w*|plpgsql_check\\w*",
    # MySQL and MariaDB
    "benchmark|sleep|load_file|sys_(?:exec|eval|set|get)|get_lock|release_(?:all_)?locks?",
    "master_(?:pos|gtid)_wait|source_pos_wait|wait_(?:for|until)_\\w+|asynchronous_\\w+|group_\\w+_\\w+",
    # SQL Server
    "xp_\\w+|sp_\\w+|openrowset|openquery|opendatasource|openxml",
    # Oracle and Snowflake
    "(?:utl|dbms|owa|htp|htf|ctx|apex)_\\w+|httpuritype|dburitype|system\\$\\w+",
    # SQLite and DuckDB
    "load_extension|writefile|readfile|edit|fts[345]_tokenizer|fsdir|lsdir|zipfile|sqlar_\\w+",
    "checkpoint|force_checkpoint|\\w+_(?:execute|attach|clear_cache)|start_ui\\w*",
    "(?:truncate|enable|disable|write)\\w*_log\\w*|load_\\w+_credentials|pragma_\\w*(?:checkpoint|optimize)",
    "shell\\w*|write_\\w+|stop_ui\\w*",
    # warehouses: files, other servers, other programs
    "external_query|remote_query|read_files|(?:try_)?reflect|java_method|raw_query",
)
# A method of SQL Server's XML has the first name.
EFFECTS_IN_DUCKDB = (
    "query|query_table|json_execute_serialized_sql|json_serialize_plan",
    "\\w*external_resource\\w*|copy_database|import_database|from_substrait\\w*",
    "python_map_function|(?:pandas|arrow|python_arrow|seq)_scan\\w*",
    "duckdb_secrets|which_secret|duckdb_temporary_files|getenv|getvariable|add_parquet_key",
)
# Functions of DuckDB that read files, folders, addresses or other databases.
FILES_IN_DUCKDB = (
    "read_\\w+|glob|sniff_csv|\\w*_?scan|parquet_\\w+|st_read\\w*|st_drivers|iceberg_\\w+",
    "delta_\\w+|shapefile_meta|\\w+_attach|\\w+_query|postgres_\\w+|mysql_\\w+|sqlite_\\w+",
)
# A function of the schema `system` of Trino runs the text of another database.
EFFECTS_IN_TRINO = ("query",)
# Functions of ClickHouse that read or reach what is not a table of its own.
EFFECTS_IN_CLICKHOUSE = (
    "file|filecluster|url|urlcluster|s3\\w*|gcs|hdfs\\w*|azureblobstorage\\w*|remote\\w*|cluster\\w*",
    "mysql|postgresql|mongodb|redis|sqlite|jdbc|odbc|executable|input|deltalake\\w*|hudi\\w*",
    "iceberg\\w*|catboostevaluate|dictget\\w*sql|sleep\\w*|showcertificate|addresstoline\\w*",
)
# Functions of PostgreSQL that count as volatile because their answer changes, and that only read.
HARMLESS_VOLATILE = (
    "clock_timestamp",
    "gen_random_bytes",
    "gen_random_uuid",
    "pg_database_size",
    "pg_relation_size",
    "pg_table_size",
    "pg_total_relation_size",
    "random",
    "random_normal",
    "timeofday",
    "uuid_generate_v1",
    "uuid_generate_v4",
    "uuidv4",
    "uuidv7",
)
# Words that begin a statement of SQL Server, which needs no semicolon before it.
_STATEMENTS = """
    ADD ALTER BACKUP BEGIN BREAK BULK CHECKPOINT CLOSE COMMIT CONTINUE CREATE DBCC DEALLOCATE
    DECLARE DELETE DENY DISK DROP DUMP ENABLE DISABLE EXEC EXECUTE EXIT GO GOTO GRANT INSERT
    KILL LOAD MERGE MOVE OPEN PRINT RAISERROR READTEXT RECONFIGURE RESTORE RETURN REVERT REVOKE
    ROLLBACK SAVE SETUSER SHUTDOWN THROW TRUNCATE UPDATE UPDATETEXT USE WAITFOR WHILE WRITETEXT
"""
MSSQL_STATEMENTS = frozenset(_STATEMENTS.split())
_MYSQL = """
    now sysdate ltrim rtrim hour minute second quarter year month day week md5 password
    weight_string adddate addtime aes_decrypt aes_encrypt any_value bin bin_to_uuid bit_and
    bit_or bit_xor bit_count char_length character_length charset coercibility collation
    connection_id conv convert_tz crc32 curdate current_time curtime database date_format
    dayname dayofmonth dayofweek dayofyear default des_decrypt elt export_set extractvalue field
    find_in_set format found_rows from_base64 from_days from_unixtime get_format gtid_subset
    ifnull inet6_aton inet6_ntoa inet_aton inet_ntoa insert instr interval is_ipv4 is_ipv6
    is_uuid isnull json_arrayagg json_contains json_insert json_replace json_contains_path
    json_depth json_length json_merge_patch json_merge_preserve json_objectagg json_overlaps
    json_pretty json_quote json_schema_valid json_search json_storage_size json_table json_type
    json_unquote json_valid json_value last_day lcase localtime localtimestamp locate log10 log2
    lpad make_set makedate maketime mbrcontains mbrequal mbrintersects mbroverlaps mbrwithin
    microsecond mid mod monthname name_const oct octet_length ord period_add period_diff
    position quote regexp_instr regexp_like regexp_substr replace row_count rpad schema
    sec_to_time sha1 sha2 strcmp str_to_date subdate subtime substring_index time_format
    time_to_sec timediff timestampadd timestampdiff to_base64 to_days to_seconds truncate ucase
    uncompress uncompressed_length unix_timestamp updatexml user utc_date utc_time utc_timestamp
    uuid uuid_to_bin values version weekday weekofyear yearweek nullif std st_area st_asgeojson
    st_astext st_buffer st_centroid st_contains st_distance st_distance_sphere st_geomfromtext
    st_intersects st_length st_srid st_within st_x st_y
"""
_MSSQL = """
    app_name approx_count_distinct date_bucket binary_checksum cast certencoded charindex
    checksum checksum_agg choose col_length col_name columnproperty compress connectionproperty
    convert count_big current_timestamp current_timezone current_timezone_id cursor_status
    databaseproperty databasepropertyex datalength datediff_big datename datepart
    datetime2fromparts datetimeoffsetfromparts db_id db_name decompress difference
    edge_id_from_parts eomonth error_message error_number file_id file_name filegroup_name
    formatmessage generate_series get_bit getansinull getdate getutcdate has_dbaccess
    has_perms_by_name hashbytes host_id host_name ident_current ident_incr ident_seed iif
    index_col indexproperty is_member is_rolemember is_srvrolemember isdate isjson isnull
    isnumeric json_array json_modify json_object json_path_exists json_query json_value
    left_shift len nchar newid newsequentialid nullif object_definition object_id object_name
    object_schema_name objectproperty objectpropertyex openjson original_login parse parsename
    patindex permissions percentile_cont pwdcompare quotename rand replicate right_shift
    rowcount_big schema_id schema_name scope_identity serverproperty session_context
    session_user smalldatetimefromparts sql_variant_property square stats_date stdev stdevp str
    string_agg string_escape string_split suser_id suser_name suser_sid suser_sname switchoffset
    sysdatetime sysdatetimeoffset system_user sysutcdatetime textptr timefromparts
    todatetimeoffset trigger_nestlevel try_convert try_parse type_id type_name typeproperty
    user_id user_name var varp nodes value query exist freetexttable containstable freetext
    contains
"""
_ORACLE = """
    add_months asciistr bitand cardinality chartorowid cluster_id cluster_probability
    collect compose convert corr_k corr_s cv dbtimezone decompose deref dump empty_blob
    empty_clob extractvalue feature_id from_tz group_id hextoraw instr instrb instrc
    iteration_number json_query json_table json_value lengthb lengthc lnnvl lpad make_ref
    nls_charset_decl_len nls_charset_id nls_charset_name nls_initcap nls_lower nls_upper nlssort
    ntile numtodsinterval numtoyminterval nvl ora_hash ora_rowscn percentile_cont powermultiset
    prediction prediction_probability rawtohex rawtonhex ref reftohex remainder rowidtochar rpad
    rtrim scn_to_timestamp sessiontimezone stats_mode substrb substrc sys_connect_by_path
    sys_context sys_extract_utc sys_guid sys_typeid sysdate table timestamp_to_scn
    to_binary_double to_binary_float to_blob to_clob to_date to_dsinterval to_lob to_multi_byte
    to_nchar to_nclob to_single_byte to_timestamp to_timestamp_tz to_yminterval treat tz_offset
    uid unistr userenv vsize xmlagg xmlattributes xmlcast xmlconcat xmlexists xmlforest xmlparse
    xmlquery xmlsequence xmlserialize ratio_to_report listagg
"""
READING = frozenset(f"{_MYSQL}{_MSSQL}{_ORACLE}".split())
