"""Where tables and models of others come from: files, databases, lakes, addresses; and
their forms.
"""
