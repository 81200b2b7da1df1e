//! A real HTTP server on loopback, whose answers a test chooses.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
};

/// What a client asked.
#[derive(Debug, Clone)]
pub(crate) struct Request {
    pub(crate) path: String,
    /// Names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Request {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let found = self.headers.iter().find(|(other, _)| other == name);
        found.map(|(_, value)| value.as_str())
    }
}

/// What it gets.
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<String>,
    pub(crate) body: Vec<u8>,
    /// The connection breaks after so many bytes of the body.
    pub(crate) cut: Option<usize>,
}

impl Reply {
    pub(crate) fn new(status: u16, body: impl Into<Vec<u8>>) -> Self {
        Self {
            status,
            headers: Vec::new(),
            body: body.into(),
            cut: None,
        }
    }

    pub(crate) fn header(mut self, line: impl Into<String>) -> Self {
        self.headers.push(line.into());
        self
    }
}

/// Answers one request after another until it is dropped.
pub(crate) struct Server {
    address: SocketAddr,
    requests: Arc<Mutex<Vec<Request>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// `answer` gets the number of the request and the request.
    pub(crate) fn start(answer: impl Fn(usize, &Request) -> Reply + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let stop = Arc::new(AtomicBool::new(false));
        let (seen, stopped) = (requests.clone(), stop.clone());
        let thread = thread::spawn(move || {
            for connection in listener.incoming() {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                let mut connection = connection.unwrap();
                let request = read(&connection);
                let number = {
                    let mut seen = seen.lock().unwrap();
                    seen.push(request.clone());
                    seen.len() - 1
                };
                write(&mut connection, &answer(number, &request));
            }
        });
        Self {
            address,
            requests,
            stop,
            thread: Some(thread),
        }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn requests(&self) -> Vec<Request> {
        self.requests.lock().unwrap().clone()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the loop. If the thread has panicked, nobody listens any more.
        drop(TcpStream::connect(self.address));
        let ended = self.thread.take().unwrap().join();
        assert!(
            thread::panicking() || ended.is_ok(),
            "the server's thread panicked"
        );
    }
}

fn read(connection: &TcpStream) -> Request {
    let mut reader = BufReader::new(connection);
    let mut line = || {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    let first = line();
    let mut headers = Vec::new();
    loop {
        let line = line();
        let Some((name, value)) = line.split_once(':') else {
            break;
        };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let mut body = vec![0; length.map_or(0, |(_, length)| length.parse().unwrap())];
    reader.read_exact(&mut body).unwrap();
    Request {
        path: first.split(' ').nth(1).unwrap_or_default().to_owned(),
        headers,
        body: String::from_utf8(body).unwrap(),
    }
}

fn write(connection: &mut TcpStream, reply: &Reply) {
    let mut head = format!("HTTP/1.1 {} Answer\r\n", reply.status);
    for header in &reply.headers {
        head += &format!("{header}\r\n");
    }
    head += &format!(
        "content-length: {}\r\nconnection: close\r\n\r\n",
        reply.body.len()
    );
    connection.write_all(head.as_bytes()).unwrap();
    let sent = reply.cut.unwrap_or(reply.body.len());
    connection.write_all(&reply.body[..sent]).unwrap();
}
