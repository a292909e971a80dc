//! Guests that cancel requests, or that occupy slots.

use http_body_util::Empty;
use tokio::io::Interest;

use super::*;
use crate::client::MAX_COMPONENT_REQUESTS;

/// The maximum number of requests at the same time, in these tests.
const MAX: u32 = 4;

/// Begins as many requests as are allowed, waits until their server has them, and cancels them. Then
/// sends another request, which needs a slot.
async fn expect_freed_slots<B>(script: Script, body: fn() -> B)
where
    B: Body<Data = Bytes, Error = std::convert::Infallible> + Send + Unpin + 'static,
{
    let tls = Tls::new();
    let mut bad = script_server(script, None).await;
    let good = server(OK, None).await;
    let good_url = format!("http://localhost:{}/", good.port());
    let grant = grant_of(&bad).rule(good_url.parse().unwrap());
    let client = egress_at_most(MAX, grant, Names::local(), &tls);
    let url = format!("http://localhost:{}/", bad.port());
    for _ in 0..2 {
        let mut requests = Vec::new();
        for _ in 0..MAX {
            let (client, request) = (client.clone(), Request::post(&url).body(body()).unwrap());
            requests.push(tokio::spawn(async move {
                // A guest that never reads the body.
                let _response = send_body(&client, "a.wasm", request).await;
                std::future::pending::<()>().await;
            }));
            soon(bad.begun.recv()).await.unwrap();
        }
        requests.iter().for_each(tokio::task::JoinHandle::abort);
    }
    let answer = send(&client, "a.wasm", get(&good_url)).await;
    assert_eq!((answer.failure(), answer.status()), (None, 200));
}

fn script(reads: bool, answer: &str, end: End) -> Script {
    Script {
        reads,
        answer: answer.into(),
        end,
    }
}

#[tokio::test]
async fn cancel_frees_slot_while_server_is_silent() {
    expect_freed_slots(script(true, "", End::Wait), Empty::new).await;
}

#[tokio::test]
async fn cancel_frees_slot_while_server_reads_no_body() {
    expect_freed_slots(script(false, "", End::Keep), || Endless).await;
}

#[tokio::test]
async fn cancel_frees_slot_in_the_middle_of_a_head() {
    let head = "HTTP/1.1 200 OK\r\nx: ";
    expect_freed_slots(script(true, head, End::Keep), Empty::new).await;
}

#[tokio::test]
async fn cancel_frees_slot_while_guest_reads_nothing() {
    let head = "HTTP/1.1 200 OK\r\n\r\n";
    expect_freed_slots(script(true, head, End::Repeat(&[b'x'; 4_096])), Empty::new).await;
}

#[tokio::test]
async fn cancel_ends_the_connection_to_the_server() {
    let tls = Tls::new();
    let head = "HTTP/1.1 200 OK\r\n\r\nx";
    let mut server = script_server(script(true, head, End::Wait), None).await;
    let client = egress(grant_of(&server), Names::local(), &tls);
    let url = format!("http://localhost:{}/", server.port());
    let request = get(&url).map(|_| Empty::new());
    let (mut response, _) = soon(send_body(&client, "a.wasm", request)).await.unwrap();
    soon(response.body_mut().frame()).await.unwrap().unwrap();
    expect_nothing_more(response.body_mut()).await;
    drop(response);
    soon(server.ended.recv()).await.unwrap();
}

#[tokio::test]
async fn sockets_without_a_request_take_no_slot_for_long() {
    let tls = Tls::new();
    let server = server(OK, None).await;
    let client = egress_at_most(MAX, grant_of(&server), Names::local(), &tls);
    for number in 0..10_000 {
        let socket = loop {
            match client.open_socket() {
                Ok(socket) => break socket,
                // The process has not received the earlier sockets yet.
                Err(_) => tokio::task::yield_now().await,
            }
        };
        let half = ["", "GET / HTTP/1.1\r\nskillhost-grant: a.w"][number % 2];
        let socket = tokio::net::UnixStream::from_std(socket).unwrap();
        socket.ready(Interest::WRITABLE).await.unwrap();
        assert_eq!(socket.try_write(half.as_bytes()).unwrap(), half.len());
    }
    let url = format!("http://localhost:{}/", server.port());
    // The queue may still be full.
    let request = || get(&url).map(|_| Empty::new());
    let answer = async {
        loop {
            match send_body(&client, "a.wasm", request()).await {
                Ok((response, _)) => break response,
                Err(_) => tokio::task::yield_now().await,
            }
        }
    };
    assert_eq!(soon(answer).await.status(), 200);
}

#[tokio::test]
async fn one_component_leaves_slots_for_others() {
    let tls = Tls::new();
    let mut silent = script_server(script(true, "", End::Wait), None).await;
    let good = server(OK, None).await;
    let good_url = format!("http://localhost:{}/", good.port());
    let grant = grant_of(&silent).rule(good_url.parse().unwrap());
    let max = u32::try_from(MAX_COMPONENT_REQUESTS + 1).unwrap();
    let client = egress_at_most(max, grant, Names::local(), &tls);
    let url = format!("http://localhost:{}/", silent.port());
    let mut requests = Vec::new();
    for _ in 0..2 * MAX_COMPONENT_REQUESTS {
        let (client, request) = (client.clone(), get(&url).map(|_| Empty::new()));
        requests.push(tokio::spawn(async move {
            let _response = send_body(&client, "a.wasm", request).await;
        }));
    }
    for _ in 0..MAX_COMPONENT_REQUESTS {
        soon(silent.begun.recv()).await.unwrap();
    }
    let answer = send(&client, "c.wasm", get(&good_url)).await;
    assert_eq!((answer.failure(), answer.status()), (None, 200));
    // The component's further requests wait for a slot.
    assert!(silent.begun.try_recv().is_err());
    requests.iter().for_each(tokio::task::JoinHandle::abort);
    let answer = send(&client, "a.wasm", get(&good_url)).await;
    assert_eq!((answer.failure(), answer.status()), (None, 200));
}
