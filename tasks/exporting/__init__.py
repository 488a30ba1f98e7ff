"""Published models as ONNX graphs and SQL queries."""
