CREATE SCHEMA IF NOT EXISTS shop;

CREATE OR REPLACE TABLE shop.orders (
  id INT64 NOT NULL,
  customer STRING,
  total NUMERIC,
  placed TIMESTAMP,
  status STRING DEFAULT 'open',
  items ARRAY<STRUCT<sku STRING, quantity INT64>>
);

CREATE OR REPLACE TABLE shop.delays (carrier STRING, flights INT64, delay FLOAT64);

CREATE OR REPLACE TABLE shop.notes (id INT64, document JSON);

CREATE OR REPLACE VIEW shop.large_orders AS SELECT * FROM shop.orders WHERE total > 100;
