//! Writes the records of an Avro file again with apache-avro and says how long it
//! took. The records are made before.
//!
//! Arguments: the file.

use std::env;
use std::error::Error;
use std::fs;
use std::time::Instant;

use apache_avro::types::Value;
use apache_avro::{Codec, Reader, Writer};

const PASSES: usize = 5;

fn main() -> Result<(), Box<dyn Error>> {
    let path = env::args().nth(1).ok_or("a file is needed")?;
    let file = fs::read(path)?;
    let reader = Reader::new(&file[..])?;
    let schema = reader.writer_schema().clone();
    let records: Vec<Value> = reader.collect::<Result<_, _>>()?;
    let mut fastest = f64::INFINITY;
    let mut bytes = 0;
    for _ in 0..PASSES {
        let began = Instant::now();
        let mut writer = Writer::with_codec(&schema, Vec::new(), Codec::Null);
        for record in &records {
            writer.append_value_ref(record)?;
        }
        bytes = writer.into_inner()?.len();
        fastest = fastest.min(began.elapsed().as_secs_f64());
    }
    println!(
        "{}",
        serde_json::json!({"seconds": fastest, "rows": records.len(), "bytes": bytes})
    );
    Ok(())
}
