//! The requests of a script. Several may be pending at a time: the engine waits for all of them and
//! for the next timer together.

use std::cell::RefCell;
use std::collections::BTreeMap;

use rquickjs::prelude::{Func, Opt};
use rquickjs::{ArrayBuffer, Ctx, Object, Result, TypedArray};
use skillhost_guest::http::{self, Exchange, HttpError, Pollable, Response, Stream};
use wasip2::clocks::monotonic_clock;

/// The state of a request of the script.
enum State {
    /// Waits for the head of the response.
    Sent(Exchange),
    /// The head has arrived, and nothing has read the body.
    Answered(Option<Response>),
    /// The body is being read. The flag is set if the script waits for a chunk.
    Read(Stream, bool),
}

/// A change of a request.
enum Event {
    /// The head of the response has arrived: the status, and names and values of headers.
    Head(u16, Vec<String>),
    /// The script's next chunk of the body.
    Chunk(Vec<u8>),
    /// The end of the body.
    End,
    /// The request or its response failed.
    Failed(HttpError),
}

#[derive(Default)]
struct Requests {
    states: BTreeMap<u32, State>,
    last: u32,
}

thread_local! {
    static REQUESTS: RefCell<Requests> = RefCell::default();
}

impl State {
    /// Returns what a waiting script waits for.
    fn pollables(&self) -> Vec<Pollable> {
        match self {
            Self::Sent(exchange) => exchange.pollables(),
            Self::Read(stream, true) => vec![stream.pollable()],
            Self::Answered(_) | Self::Read(_, false) => Vec::new(),
        }
    }

    /// Continues without waiting.
    fn advance(&mut self) -> Option<Event> {
        match self {
            Self::Sent(exchange) => match exchange.advance() {
                Ok(None) => None,
                Ok(Some(response)) => {
                    let text = |bytes: &[u8]| bytes.iter().map(|byte| char::from(*byte)).collect();
                    let headers = response.headers();
                    let headers = headers.flat_map(|(name, value)| [name.to_owned(), text(value)]);
                    let event = Event::Head(response.status(), headers.collect());
                    *self = Self::Answered(Some(response));
                    Some(event)
                }
                Err(error) => Some(Event::Failed(error)),
            },
            Self::Read(stream, is_awaited @ true) => match stream.ready() {
                Ok(Some(chunk)) if chunk.is_empty() => None,
                Ok(Some(chunk)) => {
                    *is_awaited = false;
                    Some(Event::Chunk(chunk))
                }
                Ok(None) => Some(Event::End),
                Err(error) => Some(Event::Failed(error)),
            },
            Self::Answered(_) | Self::Read(_, false) => None,
        }
    }
}

/// Waits for a time in milliseconds, or until a request continues.
pub(crate) fn wait(milliseconds: f64) {
    let mut pollables: Vec<Pollable> = REQUESTS.with_borrow(|requests| {
        let states = requests.states.values();
        states.flat_map(State::pollables).collect()
    });
    if milliseconds.is_finite() {
        // Saturates.
        let nanoseconds = (milliseconds * 1e6) as u64;
        pollables.push(monotonic_clock::subscribe_duration(nanoseconds));
    }
    if !pollables.is_empty() {
        http::poll(&pollables.iter().collect::<Vec<_>>());
    }
}

/// Begins a request. Returns its number, or the kind and message of an error.
fn send<'js>(
    ctx: Ctx<'js>,
    method: String,
    url: String,
    headers: Vec<String>,
    body: Opt<Option<TypedArray<'js, u8>>>,
) -> Result<Object<'js>> {
    let mut request = http::request(&method, &url);
    for pair in headers.chunks_exact(2) {
        request = request.header(&pair[0], &pair[1]);
    }
    if let Some(body) = body.0.flatten() {
        request = request.body(body.as_bytes().unwrap_or_default());
    }
    let object = Object::new(ctx)?;
    match request.start() {
        Ok(exchange) => REQUESTS.with_borrow_mut(|requests| {
            requests.last += 1;
            let number = requests.last;
            requests.states.insert(number, State::Sent(exchange));
            object.set("number", number)
        })?,
        Err(error) => set_error(&object, &error)?,
    }
    Ok(object)
}

fn set_error(object: &Object<'_>, error: &HttpError) -> Result<()> {
    object.set("kind", error.kind().name())?;
    object.set("message", error.to_string())
}

/// Begins to read the next chunk of a body.
fn read(number: u32) {
    REQUESTS.with_borrow_mut(|requests| {
        let Some(state) = requests.states.get_mut(&number) else {
            return;
        };
        if let State::Answered(response) = state {
            // Cannot fail: nothing read the body before.
            let Some(Ok(stream)) = response.take().map(Response::stream) else {
                return;
            };
            *state = State::Read(stream, false);
        }
        if let State::Read(_, is_awaited) = state {
            *is_awaited = true;
        }
    });
}

/// Drops a request, which cancels it.
fn cancel(number: u32) {
    REQUESTS.with_borrow_mut(|requests| requests.states.remove(&number));
}

/// Checks whether the script waits for any request.
fn is_pending() -> bool {
    REQUESTS.with_borrow(|requests| {
        let mut states = requests.states.values();
        states.any(|state| matches!(state, State::Sent(_) | State::Read(_, true)))
    })
}

/// Returns the next event of a request, or `None`. Does not wait.
fn next_event(ctx: Ctx<'_>) -> Result<Option<Object<'_>>> {
    let event = REQUESTS.with_borrow_mut(|requests| {
        let mut states = requests.states.iter_mut();
        let event = states.find_map(|(number, state)| Some((*number, state.advance()?)));
        if let Some((number, Event::End | Event::Failed(_))) = &event {
            requests.states.remove(number);
        }
        event
    });
    let Some((number, event)) = event else {
        return Ok(None);
    };
    let object = Object::new(ctx.clone())?;
    object.set("number", number)?;
    match event {
        Event::Head(status, headers) => {
            object.set("status", status)?;
            object.set("headers", headers)?;
        }
        Event::Chunk(chunk) => object.set("chunk", ArrayBuffer::new(ctx, chunk)?)?,
        Event::End => {}
        Event::Failed(error) => set_error(&object, &error)?,
    }
    Ok(Some(object))
}

/// Adds this module's functions to the object `native` of the scripts in `js`.
pub(crate) fn provide(native: &Object<'_>) -> Result<()> {
    native.set("httpSend", Func::from(send))?;
    native.set("httpRead", Func::from(read))?;
    native.set("httpCancel", Func::from(cancel))?;
    native.set("httpIsPending", Func::from(is_pending))?;
    native.set("httpEvent", Func::from(next_event))
}
