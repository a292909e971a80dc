//! Access to the server: tokens, hosts and origins.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use skillhost::Trust;
use skillhost_server::{HttpOptions, Server, Token};

use super::{TOKEN, options, serve, short_call};
use crate::support::folders::Folders;
use crate::support::http::{Client, Request};
use crate::support::program::{NOBODY, run_unprivileged};

fn read_token(file: &Path) -> anyhow::Result<Token> {
    Token::read(file, &Trust::new())
}

#[test]
fn tools_and_metrics_need_the_token() {
    let token = Token::new(TOKEN).unwrap();
    let server = serve(options(|options| options.token = Some(token)));
    let bearer = format!("Bearer {TOKEN}");
    for request in [short_call(1), Request::get("/metrics")] {
        let ask = |request: &Request| Client::once(server.address, request);
        let answer = ask(&request);
        assert_eq!(answer.status, 401);
        assert_eq!(answer.header("www-authenticate"), Some("Bearer"));
        for wrong in [
            "Bearer wrong",
            "Basic abc",
            TOKEN,
            &bearer[..bearer.len() - 1],
        ] {
            let answer = ask(&request.clone().with("Authorization", wrong));
            assert_eq!(answer.status, 401, "{wrong}");
            assert!(
                answer
                    .header("www-authenticate")
                    .unwrap()
                    .contains("invalid_token")
            );
        }
        assert_eq!(
            ask(&request.clone().with("Authorization", &bearer)).status,
            200
        );
    }
    for open in ["/healthz", "/readyz"] {
        assert_eq!(
            Client::once(server.address, &Request::get(open)).status,
            200
        );
    }
}

#[test]
fn connection_survives_refusal_of_large_body() {
    let token = Token::new(TOKEN).unwrap();
    let server = serve(options(|options| options.token = Some(token)));
    let large = Request::post(" ".repeat(1_900_000));
    // The server refuses the first request before the client has sent all of it.
    let mut client = Client::connect(server.address);
    for _ in 0..2 {
        assert_eq!(client.ask(&large).status, 401);
    }
}

#[test]
fn refuses_other_hosts_and_origins() {
    let server = serve(HttpOptions::default());
    let port = server.address.port();
    for request in [short_call(1), Request::get("/metrics")] {
        let ask =
            |name, value: &str| Client::once(server.address, &request.clone().with(name, value));
        for host in ["evil.example", "localhost.evil.example", "169.254.1.1"] {
            assert_eq!(ask("Host", host).status, 403, "{host}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "http://localhost:1",
            "https://localhost:80",
        ] {
            assert_eq!(ask("Origin", origin).status, 403, "{origin}");
        }
        let own = format!("localhost:{port}");
        let request = request
            .clone()
            .with("Host", &own)
            .with("Origin", &format!("http://{own}"));
        assert_eq!(Client::once(server.address, &request).status, 200);
    }
    assert_eq!(
        Client::once(server.address, &short_call(1).without("Host")).status,
        400
    );
    let line = Request {
        line: "POST http://evil.example/mcp HTTP/1.1".into(),
        ..short_call(1)
    };
    assert_eq!(Client::once(server.address, &line).status, 403);
}

#[test]
fn allowed_page_gets_cors_headers_and_needs_token() {
    let page = "https://app.example";
    let server = serve(options(|options| {
        options.token = Some(Token::new(TOKEN).unwrap());
        options.allowed_origins = vec![page.into()];
        options.allowed_hosts = vec!["mcp.example".into()];
    }));
    let ask = |request: &Request| Client::once(server.address, request);
    let request = short_call(1)
        .with("Host", "mcp.example")
        .with("Origin", page);
    let preflight = Request {
        line: "OPTIONS /mcp HTTP/1.1".into(),
        body: Vec::new(),
        ..request.clone()
    };
    let preflight = preflight
        .without("Content-Length")
        .with("Access-Control-Request-Headers", "authorization");
    let answer = ask(&preflight);
    assert_eq!(answer.status, 204);
    assert_eq!(answer.header("access-control-allow-origin"), Some(page));
    assert_eq!(
        answer.header("access-control-allow-headers"),
        Some("authorization")
    );
    let answer = ask(&request);
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (401, Some(page))
    );
    // A script in the page reads only these headers of an answer.
    let exposed = answer.headers.iter();
    let exposed = exposed.filter(|(name, _)| name == "access-control-expose-headers");
    let exposed: Vec<&str> = exposed.map(|(_, value)| value.as_str()).collect();
    assert_eq!(
        exposed,
        ["mcp-session-id", "www-authenticate", "retry-after"]
    );
    let answer = ask(&request.with("Authorization", &format!("Bearer {TOKEN}")));
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (200, Some(page))
    );
    let answer = ask(&preflight.with("Origin", "https://other.example"));
    assert_eq!(
        (answer.status, answer.header("access-control-allow-origin")),
        (403, None)
    );
}

#[test]
fn server_off_loopback_needs_token_and_allowed_hosts() {
    let bind = |address: &str, options: HttpOptions| {
        let address: SocketAddr = address.parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let bound = runtime.block_on(Server::bind(address, options));
        bound.map(drop).map_err(|error| format!("{error:#}"))
    };
    let token = || Token::new(TOKEN).ok();
    for open in ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", "[::ffff:192.0.2.1]:0"] {
        let error = bind(open, HttpOptions::default()).unwrap_err();
        assert!(
            error.contains("token_file") && error.contains(open),
            "{error}"
        );
    }
    let error = bind("0.0.0.0:0", options(|options| options.token = token())).unwrap_err();
    assert!(error.contains("allowed_hosts"), "{error}");
    bind("127.0.0.1:0", HttpOptions::default()).unwrap();
    bind("127.0.0.1:0", options(|options| options.token = token())).unwrap();
    let wrong = options(|options| options.allowed_origins = vec!["*".into()]);
    let error = bind("127.0.0.1:0", wrong).unwrap_err();
    assert!(error.contains("`*`"), "{error}");
}

#[test]
fn refuses_unsafe_or_malformed_token_file() {
    use std::fs;

    let folders = Folders::new();
    let file = folders.outside.join("token");
    let mode = |mode| fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    fs::write(&file, format!("{TOKEN}\n")).unwrap();
    for (allowed, bits) in [
        (true, 0o600),
        (true, 0o400),
        (false, 0o640),
        (false, 0o604),
        (false, 0o620),
    ] {
        mode(bits);
        assert_eq!(read_token(&file).is_ok(), allowed, "{bits:o}");
    }
    mode(0o600);
    let longest = "x".repeat(4096);
    fs::write(&file, format!("{longest}\n")).unwrap();
    let server = serve(options(|options| options.token = read_token(&file).ok()));
    let status = |token: &str| {
        let request = short_call(1).with("Authorization", &format!("Bearer {token}"));
        Client::once(server.address, &request).status
    };
    assert_eq!((status(&longest), status(&longest[1..])), (200, 401));
    fs::write(&file, "short").unwrap();
    let error = read_token(&file).unwrap_err();
    assert!(format!("{error:#}").contains("16"), "{error:#}");
    fs::write(&file, [b'x'; 1 << 20]).unwrap();
    assert!(read_token(&file).is_err());
    let fifo = folders.outside.join("fifo");
    let kind = rustix::fs::FileType::Fifo;
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, kind, rustix::fs::Mode::RUSR, 0).unwrap();
    for path in [
        &fifo,
        &folders.outside,
        &folders.outside.join("none"),
        Path::new("/dev/zero"),
    ] {
        assert!(read_token(path).is_err(), "{path:?}");
    }
}

#[test]
fn token_file_belongs_to_server_user_or_root() {
    use rustix::fs::{Gid, Uid, chown};
    use std::fs;

    // Only root can make files of other users.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folders = Folders::new();
    let file = folders.outside.join("token");
    fs::write(&file, TOKEN).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    assert!(read_token(&file).is_ok());
    chown(
        &file,
        Some(Uid::from_raw(NOBODY)),
        Some(Gid::from_raw(NOBODY)),
    )
    .unwrap();
    let error = format!("{:#}", read_token(&file).unwrap_err());
    assert!(error.contains("belongs to another user"), "{error}");
    // For a server that runs as this owner, only the short token is wrong.
    fs::write(&file, "short").unwrap();
    let path = file.to_str().unwrap();
    let run = run_unprivileged(&["serve", "--http", "127.0.0.1:0", "--token-file", path]);
    assert_eq!(run.code, 4, "{run:?}");
    assert!(run.stderr.contains("between 16 and 4096"), "{run:?}");
}
