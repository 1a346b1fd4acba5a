CREATE SCHEMA IF NOT EXISTS depot;

CREATE OR REPLACE TABLE depot.orders (
  id INT64 NOT NULL,
  customer STRING,
  total NUMERIC,
  placed DATETIME,
  day DATE
) PARTITION BY day;

CREATE OR REPLACE TABLE depot.notes (id INT64, document JSON);

CREATE OR REPLACE TABLE depot.spans (id INT64, span INTERVAL);
