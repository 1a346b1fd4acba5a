"""Writes batches to a table with Google's Python client and says how long it took.

Arguments: rest, grpc, storage, project.dataset.table, rows, a file of batches, and
"protobuf" or "arrow".
"""

import concurrent.futures
import datetime
import json
import sys
import time

import grpc
import pyarrow as pa
from google.cloud import bigquery_storage_v1
from google.cloud.bigquery_storage_v1 import types, writer
from google.cloud.bigquery_storage_v1.services.big_query_write.transports import (
    BigQueryWriteGrpcTransport,
)
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

CONNECTIONS = 2
# So many of lineitem's rows have about the bytes of the other writers' requests.
REQUEST_ROWS = 4096
IN_FLIGHT = 50
EPOCH = datetime.date(1970, 1, 1)


def protobuf(batches):
    """The message's class and descriptor, and the requests' rows as Python values."""
    kind = descriptor_pb2.FieldDescriptorProto
    message = descriptor_pb2.DescriptorProto(name="Row")
    for number, field in enumerate(batches[0].schema, 1):
        if pa.types.is_date(field.type):
            type_ = kind.TYPE_INT32
        elif pa.types.is_integer(field.type):
            type_ = kind.TYPE_INT64
        else:
            type_ = kind.TYPE_STRING
        message.field.add(
            name=field.name, number=number, type=type_, label=kind.LABEL_OPTIONAL
        )
    file = descriptor_pb2.FileDescriptorProto(name="row.proto", package="bench")
    file.message_type.append(message)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    row = message_factory.GetMessageClass(pool.FindMessageTypeByName("bench.Row"))

    def value(v):
        if isinstance(v, datetime.date):
            return (v - EPOCH).days
        return v if isinstance(v, (int, str)) else str(v)

    requests = []
    for batch in batches:
        for start in range(0, batch.num_rows, REQUEST_ROWS):
            rows = batch.slice(start, REQUEST_ROWS).to_pylist()
            requests.append([{k: value(v) for k, v in r.items()} for r in rows])
    template = types.AppendRowsRequest.ProtoData(
        writer_schema=types.ProtoSchema(proto_descriptor=message)
    )

    def request(rows):
        serialized = [row(**values).SerializeToString() for values in rows]
        return types.AppendRowsRequest(
            proto_rows=types.AppendRowsRequest.ProtoData(
                rows=types.ProtoRows(serialized_rows=serialized)
            )
        )

    return types.AppendRowsRequest(proto_rows=template), requests, request


def arrow(batches):
    numeric = pa.decimal128(38, 9)

    def writable(batch):
        # The only decimals that a NUMERIC column takes.
        columns = [
            c.cast(numeric) if pa.types.is_decimal(c.type) else c for c in batch.columns
        ]
        return pa.record_batch(columns, names=batch.schema.names)

    requests = []
    for batch in batches:
        for start in range(0, batch.num_rows, REQUEST_ROWS):
            requests.append(batch.slice(start, REQUEST_ROWS))
    schema = writable(requests[0]).schema.serialize().to_pybytes()
    template = types.AppendRowsRequest.ArrowData(
        writer_schema=types.ArrowSchema(serialized_schema=schema)
    )

    def request(batch):
        return types.AppendRowsRequest(
            arrow_rows=types.AppendRowsRequest.ArrowData(
                rows=types.ArrowRecordBatch(
                    serialized_record_batch=writable(batch).serialize().to_pybytes()
                )
            )
        )

    return types.AppendRowsRequest(arrow_rows=template), requests, request


def write(client, template, requests, request):
    stream = writer.AppendRowsStream(client, template)
    unanswered = []
    for rows in requests:
        unanswered.append(stream.send(request(rows)))
        if len(unanswered) >= IN_FLIGHT:
            unanswered.pop(0).result()
    for answer in unanswered:
        answer.result()
    stream.close()


def main():
    _, address, _, table, count, path, form = sys.argv[1:]
    project, dataset, name = table.split(".")
    with pa.OSFile(path) as file:
        batches = list(pa.ipc.open_stream(file))
    template, held, request = {"protobuf": protobuf, "arrow": arrow}[form](batches)
    template.write_stream = (
        f"projects/{project}/datasets/{dataset}/tables/{name}/streams/_default"
    )
    divided = [[] for _ in range(CONNECTIONS)]
    missing, number = int(count), 0
    while missing:
        rows = held[number % len(held)]
        if len(rows) > missing:
            rows = rows[:missing]
        divided[number % CONNECTIONS].append(rows)
        missing -= len(rows)
        number += 1

    began = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor() as pool:
        writes = []
        for requests in divided:
            channel = grpc.insecure_channel(address.removeprefix("http://"))
            client = bigquery_storage_v1.BigQueryWriteClient(
                transport=BigQueryWriteGrpcTransport(channel=channel)
            )
            writes.append(pool.submit(write, client, template, requests, request))
        for done in writes:
            done.result()
    took = time.perf_counter() - began
    print(json.dumps({"rows": int(count), "bytes": 0, "seconds": took}), flush=True)


main()
