CREATE SCHEMA IF NOT EXISTS replica;

CREATE OR REPLACE TABLE replica.customers (
  id INT64 NOT NULL,
  name STRING NOT NULL,
  city STRING,
  balance NUMERIC,
  PRIMARY KEY (id) NOT ENFORCED
);

CREATE OR REPLACE TABLE replica.of_mysql (
  id INT64 NOT NULL, name STRING NOT NULL, city STRING, balance NUMERIC,
  PRIMARY KEY (id) NOT ENFORCED
);

CREATE OR REPLACE TABLE replica.of_tidb (
  id INT64 NOT NULL, name STRING NOT NULL, city STRING, balance NUMERIC,
  PRIMARY KEY (id) NOT ENFORCED
);

CREATE OR REPLACE TABLE replica.of_spanner (
  id INT64 NOT NULL, name STRING NOT NULL, city STRING, balance NUMERIC,
  PRIMARY KEY (id) NOT ENFORCED
);

CREATE OR REPLACE TABLE replica.keyless (id INT64 NOT NULL, name STRING);

CREATE OR REPLACE TABLE replica.half_done (
  id INT64 NOT NULL,
  PRIMARY KEY (id) NOT ENFORCED
) OPTIONS (labels = [('datafusion_bigquery_cdc_pending', 'max_staleness_600s_1a2b3c4d')]);

DROP TABLE IF EXISTS replica.orders;
