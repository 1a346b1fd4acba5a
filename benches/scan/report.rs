//! Runs all readers over all shapes and prints their ratios.

use std::collections::BTreeMap;
use std::env;
use std::io::{self, Write};
use std::time::Instant;

use crate::peers::Peer;
use crate::process::{self, Said, Server, role};
use crate::shape::{Reading, SHAPES, Shape};
use crate::{Outcome, dataset, lineitem, peers, planning};

/// Turns of every reader over a shape; the fastest counts.
const ROUNDS: usize = 2;

pub(crate) async fn run() -> Outcome<()> {
    let scale: f64 = env::var("SCAN_SCALE").map_or(Ok(1.0), |said| said.parse())?;
    let small = scale / 10.0;
    let peers: Vec<(&str, Peer)> = peers::ready().await?.map_or_else(Vec::new, |peers| {
        vec![
            ("rust sdk", peers.binary("read")),
            ("python", peers.script("read.py")),
        ]
    });
    let server = Server::start(role("serve", &[])?).await?;
    for (table, scale) in [("lineitem", scale), ("small", small)] {
        dataset::load(&server.rest, table, &lineitem::files(scale)?).await?;
    }

    let mut out = io::stdout();
    let mut peaks = BTreeMap::new();
    for shape in &SHAPES {
        let reading = reading(&server, "lineitem", shape, scale);
        let arguments = reading.arguments();
        let mut fastest: Vec<(&str, Said)> = Vec::new();
        let (mut server_ticks, mut bare_seconds) = (0, 0.0);
        for _ in 0..ROUNDS {
            let (ticks, began) = (server.cpu_ticks(), Instant::now());
            keep(
                &mut fastest,
                "bare",
                process::read(role("bare", &arguments)?).await?,
            );
            server_ticks += server.cpu_ticks() - ticks;
            bare_seconds += began.elapsed().as_secs_f64();
            let ours = process::read(role("ours", &arguments)?).await?;
            let peak = peaks.entry(shape.name).or_insert(0f64);
            *peak = peak.max(ours.peak_mib);
            keep(&mut fastest, "ours", ours);
            for (name, peer) in &peers {
                let mut command = peer.command();
                command.args(&arguments);
                keep(&mut fastest, name, process::read(command).await?);
            }
        }
        let rows = fastest[0].1.rows;
        for (name, said) in &fastest {
            if said.rows != rows {
                return Err(format!("{name} saw {} rows of {rows}", said.rows).into());
            }
        }
        let bytes = fastest[0].1.bytes;
        let share = server_ticks as f64 / 100.0 / bare_seconds;
        print(&mut out, shape, rows, bytes, &fastest)?;
        writeln!(
            out,
            "  server while the bare client read: {share:.2} cores busy"
        )?;
    }

    writeln!(
        out,
        "\npeak memory of a process that reads through SQL, MiB"
    )?;
    for shape in &SHAPES {
        let arguments = reading(&server, "small", shape, small).arguments();
        // As many turns as at scale: the most of several is more than that of one.
        let mut at_small = 0f64;
        for _ in 0..ROUNDS {
            let ours = process::read(role("ours", &arguments)?).await?;
            at_small = at_small.max(ours.peak_mib);
        }
        let at_scale = peaks[shape.name];
        writeln!(
            out,
            "  {:<16} scale {scale}: {at_scale:.0}, scale {small}: {at_small:.0}, ratio {:.2}",
            shape.name,
            at_scale / at_small
        )?;
    }

    let lengths = [10_000, 100_000];
    let costs =
        planning::cost_per_value(&reading(&server, "lineitem", &SHAPES[1], scale), &lengths)
            .await?;
    writeln!(
        out,
        "\nplanning an IN list: {:.2} µs a value of {}, {:.2} µs a value of {}, ratio {:.2}",
        costs[0],
        lengths[0],
        costs[1],
        lengths[1],
        costs[1] / costs[0]
    )?;
    Ok(())
}

fn reading(server: &Server, table: &str, shape: &Shape, scale: f64) -> Reading {
    Reading {
        rest: server.rest.clone(),
        grpc: server.grpc.clone(),
        table: format!("local.tpch.{table}"),
        columns: shape.columns.iter().map(|&c| c.to_owned()).collect(),
        predicate: shape.predicate(scale).unwrap_or_default(),
        passes: shape.passes(),
    }
}

/// Keeps the fastest and the most memory of the turns of one reader.
fn keep(fastest: &mut Vec<(&'static str, Said)>, name: &'static str, said: Said) {
    match fastest.iter_mut().find(|(known, _)| *known == name) {
        Some((_, kept)) => {
            kept.seconds = kept.seconds.min(said.seconds);
            kept.with_planning = match (kept.with_planning, said.with_planning) {
                (Some(kept), Some(said)) => Some(kept.min(said)),
                (kept, said) => kept.or(said),
            };
            kept.peak_mib = kept.peak_mib.max(said.peak_mib);
        }
        None => fastest.push((name, said)),
    }
}

fn print(
    out: &mut impl Write,
    shape: &Shape,
    rows: i64,
    bytes: u64,
    readers: &[(&str, Said)],
) -> io::Result<()> {
    let megabytes = bytes as f64 / 1e6;
    let ours = readers.iter().find(|(name, _)| *name == "ours");
    let ours = ours.map(|(_, said)| said).expect("read in every round");
    let planned = ours.with_planning.unwrap_or(ours.seconds);
    writeln!(
        out,
        "\nlineitem, {}: {rows} rows, {megabytes:.1} MB of record batches",
        shape.name
    )?;
    for (name, said) in readers {
        write!(
            out,
            "  {name:<9} {:8.1} ms {:8.1} MB/s {:6.0} MiB peak",
            said.seconds * 1e3,
            megabytes / said.seconds,
            said.peak_mib
        )?;
        if *name == "ours" {
            writeln!(out, "   {:.1} ms from the text of SQL on", planned * 1e3)?;
        } else {
            writeln!(
                out,
                "   ours is {:.2} times as fast, {:.2} from the text of SQL on",
                said.seconds / ours.seconds,
                said.seconds / planned
            )?;
        }
    }
    Ok(())
}
