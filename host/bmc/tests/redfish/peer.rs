//! A BMC that says exactly what a test tells it to say, and remembers exactly what it was asked.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bmc::redfish::RedfishBmc;
use bmc::{BmcConfig, Ca, Deadlines, Tls};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use model::{BmcAddress, Secret};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// What the peer does with one request.
#[derive(Clone)]
pub(crate) enum Answer {
    /// Status, headers, body.
    Say(u16, Vec<(&'static str, String)>, String),
    /// Status and a body of any bytes.
    Bytes(u16, Vec<u8>),
    /// Another answer, once the gate is open.
    After(tokio::sync::watch::Receiver<bool>, Box<Answer>),
    /// Nothing, ever.
    Hang,
    /// The connection ends without an answer.
    Drop,
}

pub(crate) fn ok(body: Value) -> Answer {
    Answer::Say(200, vec![], body.to_string())
}

pub(crate) fn status(status: u16) -> Answer {
    Answer::Say(status, vec![], String::new())
}

/// A refusal as Redfish words it.
pub(crate) fn says_no(status: u16, id: &str, args: &[&str]) -> Answer {
    let info = json!([{"MessageId": id, "MessageArgs": args}]);
    let body = json!({"error": {"code": "iLO.0.10.ExtendedInfo", "@Message.ExtendedInfo": info}});
    Answer::Say(status, vec![], body.to_string())
}

pub(crate) fn moved(status: u16, to: &str) -> Answer {
    Answer::Say(status, vec![("location", to.to_owned())], String::new())
}

/// One request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) line: String,
    pub(crate) body: String,
    pub(crate) headers: HashMap<String, String>,
}

#[derive(Default)]
struct State {
    /// Answers by "METHOD path", used up in order; the last one stays.
    script: HashMap<String, VecDeque<Answer>>,
    seen: Vec<Seen>,
}

pub(crate) struct Peer {
    pub(crate) address: BmcAddress,
    state: Arc<Mutex<State>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Peer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Peer {
    /// Over plain HTTP; says 404 to everything but a login.
    pub(crate) async fn start() -> Self {
        Self::serve(None).await
    }

    /// Over TLS with a self-made certificate, returned as PEM: first its CA's, then its own.
    pub(crate) async fn start_tls(names: &[&str]) -> (Self, String, String) {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let mut ca = rcgen::CertificateParams::new(vec![]).unwrap();
        ca.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let ca_key = rcgen::KeyPair::generate().unwrap();
        let ca_cert = ca.self_signed(&ca_key).unwrap();
        let issuer = rcgen::Issuer::new(ca, ca_key);
        let key = rcgen::KeyPair::generate().unwrap();
        let cert = rcgen::CertificateParams::new(names)
            .unwrap()
            .signed_by(&key, &issuer)
            .unwrap();
        let private = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
        let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![cert.der().clone()], private)
            .unwrap();
        let peer = Self::serve(Some(TlsAcceptor::from(Arc::new(config)))).await;
        (peer, ca_cert.pem(), cert.pem())
    }

    async fn serve(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let scheme = if tls.is_some() { "https" } else { "http" };
        let state = Arc::new(Mutex::new(State::default()));
        let shared = Arc::clone(&state);
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, tls.clone(), Arc::clone(&shared)));
            }
        });
        let address = BmcAddress(format!("{scheme}://127.0.0.1:{port}"));
        let peer = Self { address, state, task };
        peer.on("POST /redfish/v1/SessionService/Sessions", [session("t0")]);
        peer
    }

    /// What to say to "METHOD path", in order; the last answer stays. Replaces what was said before.
    pub(crate) fn on(&self, request: &str, answers: impl IntoIterator<Item = Answer>) {
        let mut state = self.state.lock().unwrap();
        state.script.insert(request.to_owned(), answers.into_iter().collect());
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.state.lock().unwrap().seen.clone()
    }

    /// Every request, in order.
    pub(crate) fn lines(&self) -> Vec<String> {
        self.seen().into_iter().map(|seen| seen.line).collect()
    }

    /// Every request that changes something, but for logins, in order and with its body.
    pub(crate) fn changes(&self) -> Vec<String> {
        let seen = self.seen().into_iter();
        seen.filter(|seen| !seen.line.starts_with("GET ") && !seen.line.ends_with("/Sessions"))
            .map(|seen| format!("{} {}", seen.line, seen.body).trim().to_owned())
            .collect()
    }

    /// Waits until this request has come.
    pub(crate) async fn until(&self, request: &str) {
        let start = std::time::Instant::now();
        while !self.lines().iter().any(|line| line == request) {
            assert!(start.elapsed() < Duration::from_secs(20), "{request} never came");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    pub(crate) fn forget(&self) {
        self.state.lock().unwrap().seen.clear();
    }

    pub(crate) fn config(&self) -> BmcConfig {
        BmcConfig {
            deadlines: quick(),
            ..BmcConfig::new(self.address.clone(), "admin", Secret::new("hunter2"))
        }
    }

    pub(crate) fn client(&self) -> RedfishBmc {
        RedfishBmc::new(self.config()).unwrap()
    }

    pub(crate) fn trusting(&self, pem: &str) -> RedfishBmc {
        let tls = Tls::Verify {
            ca: Some(Ca::Pem(pem.to_owned())),
        };
        RedfishBmc::new(BmcConfig { tls, ..self.config() }).unwrap()
    }

    /// An iLO 5 as far as links go: floppy in slot 1, CD in slot 2, both empty, power off.
    pub(crate) fn into_ilo5(self) -> Self {
        let link = |path: &str| json!({"@odata.id": path});
        let get = |path: &str, body: Value| self.on(&format!("GET {path}"), [ok(body)]);
        get(
            "/redfish/v1/",
            json!({"Systems": link("/redfish/v1/Systems"), "Managers": link("/redfish/v1/Managers")}),
        );
        get("/redfish/v1/Systems", json!({"Members": [link(SYSTEM)]}));
        get(
            "/redfish/v1/Managers/1",
            json!({
                "VirtualMedia": link("/redfish/v1/Managers/1/VirtualMedia"),
                "Model": "iLO 5", "FirmwareVersion": "iLO 5 v2.72",
                "Oem": {"Hpe": {"License": {"LicenseString": "iLO Advanced"}}},
            }),
        );
        get(
            "/redfish/v1/Managers/1/VirtualMedia",
            json!({"Members": [link(FLOPPY), link(CD)]}),
        );
        get(SYSTEM, system("Off"));
        get(FLOPPY, slot(FLOPPY, None));
        get(CD, slot(CD, None));
        self
    }
}

pub(crate) const SYSTEM: &str = "/redfish/v1/Systems/1";
pub(crate) const FLOPPY: &str = "/redfish/v1/Managers/1/VirtualMedia/1";
pub(crate) const CD: &str = "/redfish/v1/Managers/1/VirtualMedia/2";
pub(crate) const INSERT: &str = "POST /redfish/v1/Managers/1/VirtualMedia/2/Actions/VirtualMedia.InsertMedia";
pub(crate) const EJECT: &str = "POST /redfish/v1/Managers/1/VirtualMedia/2/Actions/VirtualMedia.EjectMedia";
pub(crate) const OEM_INSERT: &str =
    "POST /redfish/v1/Managers/1/VirtualMedia/2/Actions/Oem/Hpe/HpeiLOVirtualMedia.InsertVirtualMedia";
pub(crate) const RESET: &str = "POST /redfish/v1/Systems/1/Actions/ComputerSystem.Reset";

/// Short enough for a test, long enough for a busy machine.
pub(crate) fn quick() -> Deadlines {
    Deadlines {
        connect: Duration::from_secs(5),
        request: Duration::from_secs(10),
        verb: Duration::from_secs(30),
        settle: Duration::from_millis(300),
        poll: Duration::from_millis(5),
        pause: Duration::from_millis(5),
        quiet: Duration::from_millis(300),
        rest: Duration::ZERO,
        least_window: Duration::from_millis(50),
    }
}

pub(crate) fn session(token: &str) -> Answer {
    let uri = format!("/redfish/v1/SessionService/Sessions/{token}");
    Answer::Say(
        201,
        vec![("x-auth-token", format!("token-{token}")), ("location", uri)],
        json!({"Id": token}).to_string(),
    )
}

pub(crate) fn system(power: &str) -> Value {
    json!({
        "Manufacturer": "HPE", "Model": "ProLiant DL360 Gen10", "SerialNumber": "CZJ1",
        "PowerState": power,
        "Links": {"ManagedBy": [{"@odata.id": "/redfish/v1/Managers/1"}]},
        "Boot": {
            "BootSourceOverrideTarget@Redfish.AllowableValues": ["None", "Cd", "Hdd", "Usb", "Pxe", "UefiHttp"],
        },
        "Actions": {"#ComputerSystem.Reset": {
            "target": "/redfish/v1/Systems/1/Actions/ComputerSystem.Reset",
            "ResetType@Redfish.AllowableValues": ["On", "ForceOff", "GracefulShutdown", "ForceRestart", "Nmi", "PushPowerButton"],
        }},
        "Bios": {"@odata.id": "/redfish/v1/Systems/1/Bios"},
        "SecureBoot": {"@odata.id": "/redfish/v1/Systems/1/SecureBoot"},
        "EthernetInterfaces": {"@odata.id": "/redfish/v1/Systems/1/EthernetInterfaces"},
    })
}

/// A slot of an iLO 5, empty or holding an image.
pub(crate) fn slot(path: &str, image: Option<&str>) -> Value {
    let types = if path == CD {
        json!(["CD", "DVD"])
    } else {
        json!(["Floppy", "USBStick"])
    };
    json!({
        "MediaTypes": types,
        "Image": image.unwrap_or_default(),
        "Inserted": image.is_some(),
        "WriteProtected": true,
        "ConnectedVia": if image.is_some() { "URI" } else { "NotConnected" },
        "Actions": {
            "#VirtualMedia.InsertMedia": {"target": format!("{path}/Actions/VirtualMedia.InsertMedia")},
            "#VirtualMedia.EjectMedia": {"target": format!("{path}/Actions/VirtualMedia.EjectMedia")},
        },
        "Oem": {"Hpe": {"Actions": {
            "#HpeiLOVirtualMedia.InsertVirtualMedia": {"target": format!("{path}/Actions/Oem/Hpe/HpeiLOVirtualMedia.InsertVirtualMedia")},
            "#HpeiLOVirtualMedia.EjectVirtualMedia": {"target": format!("{path}/Actions/Oem/Hpe/HpeiLOVirtualMedia.EjectVirtualMedia")},
        }}},
    })
}

async fn connection(stream: TcpStream, tls: Option<TlsAcceptor>, state: Arc<Mutex<State>>) {
    let service = service_fn(move |request| answer(request, Arc::clone(&state)));
    let server = hyper::server::conn::http1::Builder::new();
    // A client that gives up is part of many tests.
    match tls {
        None => drop(server.serve_connection(TokioIo::new(stream), service).await),
        Some(tls) => {
            if let Ok(stream) = tls.accept(stream).await {
                drop(server.serve_connection(TokioIo::new(stream), service).await);
            }
        }
    }
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Result<Response<Full<Bytes>>, std::io::Error> {
    let line = format!("{} {}", request.method(), request.uri());
    let headers = request.headers().iter();
    let headers = headers
        .map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned()))
        .collect();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body = String::from_utf8(body.to_vec()).unwrap();
    let answer = {
        let mut state = state.lock().unwrap();
        state.seen.push(Seen {
            line: line.clone(),
            body,
            headers,
        });
        match state.script.get_mut(&line) {
            Some(answers) if answers.len() > 1 => answers.pop_front().unwrap(),
            Some(answers) => answers.front().cloned().unwrap_or(status(404)),
            None => status(404),
        }
    };
    let answer = match answer {
        Answer::After(mut gate, answer) => {
            gate.wait_for(|open| *open).await.unwrap();
            *answer
        }
        answer => answer,
    };
    match answer {
        Answer::After(..) => unreachable!("a gate behind a gate"),
        Answer::Bytes(status, body) => {
            let response = Response::builder().status(status);
            Ok(response.body(Full::new(Bytes::from(body))).unwrap())
        }
        Answer::Say(status, headers, body) => {
            let mut response = Response::builder().status(status);
            for (name, value) in headers {
                response = response.header(name, value);
            }
            Ok(response.body(Full::new(Bytes::from(body))).unwrap())
        }
        Answer::Hang => std::future::pending().await,
        Answer::Drop => Err(std::io::Error::other("dropped on purpose")),
    }
}
