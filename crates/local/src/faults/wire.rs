//! Connections that can be reset, and HTTP/2 connections that can go away.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};

use axum::extract::connect_info;
use axum::serve::{IncomingStream, Listener};
use futures::task::AtomicWaker;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};

use super::rule::Detached;

const OPEN: u8 = 0;
const RESET: u8 = 1;
const GOAWAY_FINISH: u8 = 2;
const GOAWAY_REFUSE: u8 = 3;

#[derive(Debug, Default)]
struct Shared {
    order: AtomicU8,
    waker: AtomicWaker,
}

/// Gives orders to a connection.
#[derive(Debug, Clone)]
pub(crate) struct Handle(Arc<Shared>);

impl Handle {
    fn order(&self, order: u8) {
        self.0.order.store(order, Ordering::Release);
        self.0.waker.wake();
    }

    /// Resets the connection.
    pub(super) fn reset(&self) {
        self.order(RESET);
    }

    /// Sends GOAWAY (HTTP/2 only).
    pub(super) fn goaway(&self, streams: Detached) {
        self.order(match streams {
            Detached::Finish => GOAWAY_FINISH,
            Detached::Refuse => GOAWAY_REFUSE,
        });
    }
}

/// A TCP connection that takes orders.
#[derive(Debug)]
pub(crate) struct Wire {
    stream: TcpStream,
    shared: Arc<Shared>,
    sent: Frames,
    /// A GOAWAY frame in the middle of being sent.
    inserted: Vec<u8>,
}

impl Wire {
    /// Takes over an accepted connection.
    pub(crate) fn new(stream: TcpStream) -> Self {
        if let Err(e) = stream.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY: {e}");
        }
        Self {
            stream,
            shared: Arc::default(),
            sent: Frames::default(),
            inserted: Vec::new(),
        }
    }

    /// A handle of this connection.
    pub(crate) fn handle(&self) -> Handle {
        Handle(Arc::clone(&self.shared))
    }

    /// Carries out an order, as far as it can be now.
    fn obey(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shared.waker.register(cx.waker());
        match self.shared.order.load(Ordering::Acquire) {
            RESET => {
                // Zero linger makes the close an RST.
                let lingering = self.stream.set_zero_linger();
                if let Err(e) = lingering {
                    tracing::debug!("SO_LINGER: {e}");
                }
                return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
            }
            order @ (GOAWAY_FINISH | GOAWAY_REFUSE) if self.sent.at_boundary() => {
                self.shared.order.store(OPEN, Ordering::Release);
                // The highest stream that is still served: every one, or none.
                let last: u32 = if order == GOAWAY_FINISH {
                    0x7fff_ffff
                } else {
                    0
                };
                let mut frame = vec![0, 0, 8, 7, 0, 0, 0, 0, 0];
                frame.extend_from_slice(&last.to_be_bytes());
                frame.extend_from_slice(&0u32.to_be_bytes());
                self.inserted = frame;
            }
            _ => {}
        }
        while !self.inserted.is_empty() {
            match Pin::new(&mut self.stream).poll_write(cx, &self.inserted) {
                Poll::Ready(Ok(n)) => {
                    self.inserted.drain(..n);
                }
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }
}

/// Where a sequence of HTTP/2 frames is.
#[derive(Debug, Default)]
struct Frames {
    header: [u8; 9],
    /// Bytes of the header seen.
    have: usize,
    /// Bytes of the payload to come.
    left: usize,
}

impl Frames {
    fn at_boundary(&self) -> bool {
        self.have == 0 && self.left == 0
    }

    fn pass(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.left > 0 {
                let n = self.left.min(bytes.len());
                self.left -= n;
                bytes = &bytes[n..];
                continue;
            }
            let n = (9 - self.have).min(bytes.len());
            self.header[self.have..self.have + n].copy_from_slice(&bytes[..n]);
            self.have += n;
            bytes = &bytes[n..];
            if self.have == 9 {
                let [a, b, c, ..] = self.header;
                self.left = usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c);
                self.have = 0;
            }
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(Err(e)) = self.obey(cx) {
            return Poll::Ready(Err(e));
        }
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.obey(cx))?;
        let n = std::task::ready!(Pin::new(&mut self.stream).poll_write(cx, bytes))?;
        self.sent.pass(&bytes[..n]);
        Poll::Ready(Ok(n))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        std::task::ready!(self.obey(cx))?;
        let n = std::task::ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, buffers))?;
        let mut left = n;
        for buffer in buffers {
            let taken = left.min(buffer.len());
            self.sent.pass(&buffer[..taken]);
            left -= taken;
        }
        Poll::Ready(Ok(n))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        std::task::ready!(self.obey(cx))?;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl tonic::transport::server::Connected for Wire {
    type ConnectInfo = Handle;

    fn connect_info(&self) -> Handle {
        self.handle()
    }
}

/// Accepts connections that take orders.
#[derive(Debug)]
pub(crate) struct WireListener(pub(crate) TcpListener);

impl Listener for WireListener {
    type Io = Wire;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Wire, SocketAddr) {
        let (stream, address) = Listener::accept(&mut self.0).await;
        (Wire::new(stream), address)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.0.local_addr()
    }
}

impl connect_info::Connected<IncomingStream<'_, WireListener>> for Handle {
    fn connect_info(stream: IncomingStream<'_, WireListener>) -> Self {
        stream.io().handle()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_followed_however_they_are_cut() {
        // Two frames: one of 3 bytes, one of none.
        let bytes = [
            0, 0, 3, 0, 0, 0, 0, 0, 1, 7, 7, 7, 0, 0, 0, 4, 0, 0, 0, 0, 0,
        ];
        for step in 1..bytes.len() {
            let mut frames = Frames::default();
            let mut at = 0;
            for piece in bytes.chunks(step) {
                frames.pass(piece);
                at += piece.len();
                assert_eq!(frames.at_boundary(), at == 12 || at == 21, "{at} by {step}");
            }
        }
    }
}
