use crate::{Error, Value};
use std::io::{Read, Write};

/// A step's only door to the world, for one attempt.
pub struct Host<'a> {
    exchange: &'a dyn Fn(&[u8]) -> Vec<u8>,
}

/// What an operation gave.
pub struct Reply {
    /// The reply's "ok".
    pub ok: Value,
    /// Raw bytes that came with it.
    pub data: Vec<u8>,
}

impl Host<'_> {
    /// A host that answers messages by a function: for tests.
    pub fn new(exchange: &dyn Fn(&[u8]) -> Vec<u8>) -> Host<'_> {
        Host { exchange }
    }

    /// Runs one operation: `message` is an object with "op", and raw bytes may
    /// follow it. A refusal is an [`Error`].
    pub fn call(&self, message: &Value, data: Option<&[u8]>) -> Result<Reply, Error> {
        let mut bytes = message.to_string().into_bytes();
        if let Some(data) = data {
            bytes.push(0);
            bytes.extend_from_slice(data);
        }
        let mut reply = (self.exchange)(&bytes);
        let head = reply.iter().position(|&b| b == 0).unwrap_or(reply.len());
        let data = reply.split_off(reply.len().min(head + 1));
        let text = std::str::from_utf8(&reply[..head]).expect("the host sends UTF-8");
        let all = Value::parse(text).expect("the host sends JSON");
        match all.get("error") {
            Some(error) => Err(Error::of_reply(error)),
            None => Ok(Reply { ok: all["ok"].clone(), data }),
        }
    }

    /// Writes a line to the run's log; level is debug, info, warn or error.
    pub fn log(&self, level: &str, message: &str) {
        self.tell([("op", "log".into()), ("level", level.into()), ("message", message.into())]);
    }

    /// Tells how far the attempt is, from 0 to 1.
    pub fn progress(&self, fraction: f64, message: &str) {
        self.tell([("op", "progress".into()), ("fraction", fraction.into()), ("message", message.into())]);
    }

    /// Shows a piece of output while it is made; it is not stored.
    pub fn emit(&self, chunk: &str) {
        self.tell([("op", "emit".into()), ("chunk", chunk.into())]);
    }

    /// Reports one model call and what it consumed; it counts even if the attempt
    /// fails.
    pub fn usage(&self, model: &str, input_tokens: i64, output_tokens: i64, cached_tokens: i64) {
        self.tell([
            ("op", "usage".into()),
            ("model", model.into()),
            ("calls", 1i64.into()),
            ("counted", 1i64.into()), // of the calls, those whose tokens are told
            ("input_tokens", input_tokens.into()),
            ("output_tokens", output_tokens.into()),
            ("cached_tokens", cached_tokens.into()),
        ]);
    }

    /// Sends an operation whose refusal changes nothing for the step.
    fn tell<const N: usize>(&self, message: [(&str, Value); N]) {
        let _ = self.call(&Value::object(message), None);
    }
}

/// The exchange of a command: the file /engine/call. What is written to it is a
/// message, and reading to the end gives the reply.
pub(crate) fn file(message: &[u8]) -> Vec<u8> {
    let open = || std::fs::OpenOptions::new().read(true).write(true).open("/engine/call");
    let exchange = || {
        let mut f = open()?;
        let mut reply = Vec::new();
        f.write_all(message)?;
        f.read_to_end(&mut reply)?;
        Ok::<_, std::io::Error>(reply)
    };
    exchange().expect("the host answers at /engine/call")
}

#[cfg(target_family = "wasm")]
mod abi {
    #[link(wasm_import_module = "engine_v1")]
    extern "C" {
        pub fn read(to: *mut u8);
        pub fn write(from: *const u8, n: usize);
        pub fn call(from: *const u8, n: usize) -> usize;
    }
}

/// The host's current message, of n bytes.
#[cfg(target_family = "wasm")]
pub(crate) fn message(n: usize) -> Vec<u8> {
    let mut bytes = vec![0; n];
    // SAFETY: the host writes the n bytes it has announced.
    unsafe { abi::read(bytes.as_mut_ptr()) };
    bytes
}

/// The exchange of a reactor.
#[cfg(target_family = "wasm")]
pub(crate) fn import(bytes: &[u8]) -> Vec<u8> {
    // SAFETY: the host reads the slice during the call.
    message(unsafe { abi::call(bytes.as_ptr(), bytes.len()) })
}

#[cfg(target_family = "wasm")]
pub(crate) fn response(bytes: &[u8]) {
    // SAFETY: the host reads the slice during the call.
    unsafe { abi::write(bytes.as_ptr(), bytes.len()) };
}
