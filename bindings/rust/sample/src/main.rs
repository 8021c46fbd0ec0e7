//! Parses and writes JSON, searches with regular expressions, and serves many clients at once. What
//! it prints depends on none but the code.

use regex::Regex;
use serde_json::{json, Value};
use std::collections::BTreeMap;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};

#[cfg(feature = "freehold")]
#[global_allocator]
static GLOBAL: freehold::Freehold = freehold::Freehold;

fn documents() -> (usize, u64) {
    let list: Vec<Value> = (0..20_000)
        .map(|i| json!({"id": i, "name": format!("name {i}"), "tags": ["a", "b", i % 7], "deep": {"x": i * 3}}))
        .collect();
    let text = serde_json::to_string(&list).expect("it is JSON");
    let back: Vec<BTreeMap<String, Value>> = serde_json::from_str(&text).expect("it was JSON");
    let sum = back
        .iter()
        .map(|d| d["deep"]["x"].as_u64().expect("a number"))
        .sum();
    (text.len(), sum)
}

fn words() -> (usize, usize) {
    let text: String = (0..50_000)
        .map(|i| format!("word{} {:x};", i % 997, i))
        .collect();
    let pattern = Regex::new(r"(\w+?)(\d+) ([0-9a-f]+);").expect("a pattern");
    let found = pattern.captures_iter(&text).count();
    (found, pattern.replace_all(&text, "$3=$1").len())
}

async fn serve(listener: TcpListener, clients: usize) {
    for _ in 0..clients {
        let (stream, _) = listener.accept().await.expect("a client");
        tokio::spawn(async move {
            let (from, mut to) = stream.into_split();
            let mut lines = BufReader::new(from).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let value: Value = serde_json::from_str(&line).expect("JSON");
                let answer = json!({"double": value["n"].as_u64().unwrap_or(0) * 2, "was": value});
                let text = format!("{answer}\n");
                if to.write_all(text.as_bytes()).await.is_err() {
                    break;
                }
            }
        });
    }
}

async fn ask(address: std::net::SocketAddr, client: u64) -> u64 {
    let mut stream = TcpStream::connect(address).await.expect("a server");
    let (from, mut to) = stream.split();
    let mut lines = BufReader::new(from).lines();
    let mut sum = 0;
    for n in 0..100 {
        let question = json!({"n": client * 1000 + n, "filler": "x".repeat(n as usize * 7)});
        to.write_all(format!("{question}\n").as_bytes())
            .await
            .expect("sent");
        let line = lines.next_line().await.expect("a line").expect("an answer");
        let answer: Value = serde_json::from_str(&line).expect("JSON");
        assert_eq!(answer["was"], question);
        sum += answer["double"].as_u64().expect("a number");
    }
    sum
}

#[tokio::main(worker_threads = 4)]
async fn main() {
    println!("documents {:?}", documents());
    println!("words {:?}", words());
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("its address");
    tokio::spawn(serve(listener, 50));
    let clients: Vec<_> = (0..50).map(|i| tokio::spawn(ask(address, i))).collect();
    let mut sum = 0;
    for client in clients {
        sum += client.await.expect("no panic");
    }
    println!("served {sum}");
    #[cfg(feature = "freehold")]
    {
        let stats = freehold::stats();
        assert!(stats.total.allocated > 100_000 && stats.live_bytes < 64 << 20);
        eprintln!("freehold: {} blocks were allocated", stats.total.allocated);
    }
}
