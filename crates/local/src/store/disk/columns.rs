//! Reading some columns of an Arrow IPC stream in a file, and no bytes of others.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use arrow::array::RecordBatch;
use arrow::buffer::Buffer;
use arrow::datatypes::{DataType, SchemaRef};
use arrow::error::ArrowError;
use arrow::ipc::convert::fb_to_schema;
use arrow::ipc::reader::read_record_batch;
use arrow::ipc::{MessageHeader, root_as_message};

/// What a message begins with.
const CONTINUATION: [u8; 4] = [0xff; 4];

/// Reads batches that have only some columns.
#[derive(Debug)]
pub(super) struct ColumnReader {
    file: File,
    /// Where the next message begins, and where the stream ends.
    at: u64,
    end: u64,
    schema: SchemaRef,
    /// Positions of the columns in the stream.
    wanted: Vec<usize>,
    /// Bytes of rows that were read.
    read: u64,
}

/// The header of a message, and where its body is.
struct Message {
    header: Vec<u8>,
    body: u64,
}

impl ColumnReader {
    /// Reads the stream at `at..end`; `wanted` picks columns by their names.
    pub(super) fn open(
        file: File,
        at: u64,
        end: u64,
        wanted: &dyn Fn(&str) -> bool,
    ) -> Result<Self, ArrowError> {
        let mut reader = Self {
            file,
            at,
            end,
            schema: SchemaRef::new(arrow::datatypes::Schema::empty()),
            wanted: Vec::new(),
            read: 0,
        };
        let Some(message) = reader.message()? else {
            return Err(ArrowError::IpcError("the stream has no schema".into()));
        };
        let parsed = parsed(&message)?;
        let Some(schema) = parsed.header_as_schema() else {
            return Err(ArrowError::IpcError("the stream has no schema".into()));
        };
        reader.schema = Arc::new(fb_to_schema(schema));
        reader.at = message.body + length(parsed.bodyLength())?;
        let fields = reader.schema.fields().iter().enumerate();
        reader.wanted = fields
            .filter(|(_, field)| wanted(field.name()))
            .map(|(position, _)| position)
            .collect();
        Ok(reader)
    }

    /// Bytes of rows that were read so far.
    pub(super) fn bytes_read(&self) -> u64 {
        self.read
    }

    fn message(&self) -> Result<Option<Message>, ArrowError> {
        if self.at >= self.end {
            return Ok(None);
        }
        let mut prefix = [0; 8];
        self.file.read_exact_at(&mut prefix, self.at)?;
        let (mark, size) = prefix.split_at(4);
        let size = i32::from_le_bytes(size.try_into().map_err(|_| short())?);
        if mark != CONTINUATION {
            return Err(ArrowError::IpcError("no message begins here".into()));
        }
        let size = length(i64::from(size))?;
        if size == 0 {
            return Ok(None);
        }
        let start = self.at + prefix.len() as u64;
        if start + size > self.end {
            return Err(short());
        }
        let mut header = vec![0; usize::try_from(size).map_err(|_| short())?];
        self.file.read_exact_at(&mut header, start)?;
        Ok(Some(Message {
            header,
            body: start + size,
        }))
    }

    pub(super) fn next(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        match self.message() {
            Ok(Some(message)) => Some(self.batch(&message)),
            Ok(None) => None,
            Err(e) => Some(Err(e)),
        }
    }

    fn batch(&mut self, message: &Message) -> Result<RecordBatch, ArrowError> {
        let parsed = parsed(message)?;
        let (MessageHeader::RecordBatch, Some(batch)) =
            (parsed.header_type(), parsed.header_as_record_batch())
        else {
            return Err(ArrowError::IpcError("a message is no batch".into()));
        };
        let size = length(parsed.bodyLength())?;
        if message.body + size > self.end {
            return Err(short());
        }
        // Pages of it that nothing is read into take no memory.
        let mut body = vec![0; usize::try_from(size).map_err(|_| short())?];
        let mut next = 0;
        let buffers = batch.buffers().into_iter().flatten();
        let buffers: Vec<(u64, u64)> = buffers
            .map(|b| Ok((length(b.offset())?, length(b.length())?)))
            .collect::<Result<_, ArrowError>>()?;
        for (position, field) in self.schema.fields().iter().enumerate() {
            // Of a type whose buffers are not known, and of all columns after it,
            // everything is read.
            let count = count(field.data_type()).unwrap_or(buffers.len() - next);
            let own = buffers.get(next..next + count).ok_or_else(short)?;
            next += count;
            let known = self::count(field.data_type()).is_some();
            if known && !self.wanted.contains(&position) {
                continue;
            }
            let Some(start) = own.iter().map(|(offset, _)| *offset).min() else {
                continue;
            };
            let end = own.iter().map(|(offset, size)| offset + size).max();
            let end = end.unwrap_or(start);
            let range = usize::try_from(start).map_err(|_| short())?
                ..usize::try_from(end).map_err(|_| short())?;
            let into = body.get_mut(range).ok_or_else(short)?;
            self.file.read_exact_at(into, message.body + start)?;
            self.read += end - start;
        }
        self.at = message.body + size;
        read_record_batch(
            &Buffer::from_vec(body),
            batch,
            Arc::clone(&self.schema),
            &HashMap::new(),
            Some(&self.wanted),
            &parsed.version(),
        )
    }
}

fn parsed(message: &Message) -> Result<arrow::ipc::Message<'_>, ArrowError> {
    root_as_message(&message.header)
        .map_err(|e| ArrowError::ParseError(format!("a message's header: {e}")))
}

/// The buffers of a column, those of its children included.
fn count(data_type: &DataType) -> Option<usize> {
    Some(match data_type {
        DataType::Null => 0,
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float16
        | DataType::Float32
        | DataType::Float64
        | DataType::Timestamp(..)
        | DataType::Date32
        | DataType::Date64
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Duration(_)
        | DataType::Interval(_)
        | DataType::FixedSizeBinary(_)
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => 2,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Binary | DataType::LargeBinary => 3,
        DataType::List(item) | DataType::LargeList(item) => 2 + count(item.data_type())?,
        DataType::Struct(fields) => {
            let mut sum = 1;
            for field in fields {
                sum += count(field.data_type())?;
            }
            sum
        }
        _ => return None,
    })
}

fn length(signed: i64) -> Result<u64, ArrowError> {
    u64::try_from(signed).map_err(|_| short())
}

fn short() -> ArrowError {
    ArrowError::IoError(
        "the stream is damaged".into(),
        io::Error::from(io::ErrorKind::UnexpectedEof),
    )
}
