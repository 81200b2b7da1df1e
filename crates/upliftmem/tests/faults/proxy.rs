//! A way to the database that can be cut.

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

/// Forwards connections on loopback.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    open: Arc<Mutex<Vec<TcpStream>>>,
    away: Arc<AtomicBool>,
}

impl Proxy {
    pub(crate) fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let (open, away) = (
            Arc::<Mutex<Vec<TcpStream>>>::default(),
            Arc::new(AtomicBool::new(false)),
        );
        let (kept, gone) = (Arc::clone(&open), Arc::clone(&away));
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let Ok(client) = client else { continue };
                if gone.load(Ordering::SeqCst) {
                    drop(client.shutdown(Shutdown::Both));
                    continue;
                }
                let Ok(server) = TcpStream::connect(&target) else {
                    continue;
                };
                for stream in [&client, &server] {
                    stream.set_nodelay(true).unwrap();
                    kept.lock().unwrap().push(stream.try_clone().unwrap());
                }
                forward(client.try_clone().unwrap(), server.try_clone().unwrap());
                forward(server, client);
            }
        });
        Self { port, open, away }
    }

    /// Cuts every connection; new ones are taken.
    pub(crate) fn cut(&self) {
        for stream in self.open.lock().unwrap().drain(..) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }

    /// Cuts every connection and takes none for a while.
    pub(crate) fn away(&self, duration: Duration) {
        self.away.store(true, Ordering::SeqCst);
        self.cut();
        std::thread::sleep(duration);
        self.away.store(false, Ordering::SeqCst);
    }
}

fn forward(mut from: TcpStream, mut to: TcpStream) {
    std::thread::spawn(move || {
        let mut bytes = [0; 16 * 1024];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
        drop(to.shutdown(Shutdown::Both));
        drop(from.shutdown(Shutdown::Both));
    });
}
