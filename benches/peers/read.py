"""Reads a table with Google's Python client and says how long the fastest pass took.

Arguments: rest, grpc, project.dataset.table, columns, predicate, streams, passes.
"""

import concurrent.futures
import json
import sys
import time

import grpc
from google.cloud import bigquery_storage_v1
from google.cloud.bigquery_storage_v1 import types
from google.cloud.bigquery_storage_v1.services.big_query_read.transports import (
    BigQueryReadGrpcTransport,
)


def read(client, name):
    rows = size = 0
    for page in client.read_rows(name).rows().pages:
        batch = page.to_arrow()
        rows += batch.num_rows
        size += batch.nbytes
    return rows, size


def main():
    _, address, table, columns, predicate, streams, passes = sys.argv[1:]
    project, dataset, name = table.split(".")
    channel = grpc.insecure_channel(
        address.removeprefix("http://"),
        options=[("grpc.max_receive_message_length", -1)],
    )
    client = bigquery_storage_v1.BigQueryReadClient(
        transport=BigQueryReadGrpcTransport(channel=channel)
    )
    fastest = None
    for _ in range(int(passes)):
        began = time.perf_counter()
        session = client.create_read_session(
            parent=f"projects/{project}",
            read_session=types.ReadSession(
                table=f"projects/{project}/datasets/{dataset}/tables/{name}",
                data_format=types.DataFormat.ARROW,
                read_options=types.ReadSession.TableReadOptions(
                    selected_fields=[c for c in columns.split(",") if c],
                    row_restriction=predicate,
                ),
            ),
            max_stream_count=int(streams),
        )
        with concurrent.futures.ThreadPoolExecutor() as pool:
            parts = list(pool.map(lambda s: read(client, s.name), session.streams))
        took = time.perf_counter() - began
        if fastest is None or took < fastest["seconds"]:
            fastest = {
                "rows": sum(rows for rows, _ in parts),
                "bytes": sum(size for _, size in parts),
                "seconds": took,
            }
    print(json.dumps(fastest), flush=True)


main()
