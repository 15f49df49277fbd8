//! What a BMC is reached with, whatever it speaks.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use model::{BmcAddress, Secret};
use url::Url;

use crate::trace::Trace;
use crate::{BmcError, Fence, Unfenced};

/// Address, credentials and limits of one BMC.
#[derive(Clone)]
pub struct BmcConfig {
    /// `https://host` or `https://host:port`; `http://` is taken as it is.
    pub address: BmcAddress,
    /// Account name.
    pub user: String,
    /// Its password.
    pub password: Secret,
    /// How the BMC's certificate is judged.
    pub tls: Tls,
    /// Which protocols and ciphers the BMC may choose from.
    pub protocols: Protocols,
    /// How long things may take.
    pub deadlines: Deadlines,
    /// Asked before each request that changes something.
    pub fence: Arc<dyn Fence>,
    /// Log in once and reuse the session; `false` sends basic authentication with each request.
    pub session: bool,
    /// Path of the system, where a BMC serves several; `None` takes the first.
    pub system: Option<String>,
    /// Told of every request and answer; it sees secrets, so that it can take them out.
    pub trace: Option<Arc<dyn Trace>>,
}

impl BmcConfig {
    /// Verified TLS against the machine's own CAs, a session, the default deadlines, no fence.
    pub fn new(address: BmcAddress, user: impl Into<String>, password: Secret) -> Self {
        Self {
            address,
            user: user.into(),
            password,
            tls: Tls::Verify { ca: None },
            protocols: Protocols::Modern,
            deadlines: Deadlines::default(),
            fence: Arc::new(Unfenced),
            session: true,
            system: None,
            trace: None,
        }
    }
}

/// How a BMC's certificate is judged.
#[derive(Clone, Debug)]
pub enum Tls {
    /// It must be signed by a trusted CA for the name or address that we call.
    Verify {
        /// Certificates to trust instead of the machine's own CAs. One that *is* the BMC's certificate is trusted whatever
        /// name and dates it bears, since that is what BMCs sign for themselves.
        ca: Option<Ca>,
    },
    /// Any certificate will do: whoever is on the wire can read the password.
    Insecure,
}

/// Which TLS a connection may use. Certificates are judged alike in both.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Protocols {
    /// TLS 1.2 and newer with forward secrecy.
    #[default]
    Modern,
    /// TLS 1.0 to 1.2 with every cipher that the machine's OpenSSL still knows: iLO 2, iLO 3 and early iLO 4. Who is on the
    /// wire may be able to break it, so it is for networks that hold nothing but BMCs.
    Legacy,
}

/// PEM certificates, one or more.
#[derive(Clone, Debug)]
pub enum Ca {
    /// The text itself.
    Pem(String),
    /// A file, at most 1 MiB, read when the client is made.
    File(PathBuf),
}

/// How long things may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deadlines {
    /// TCP and TLS until a connection stands.
    pub connect: Duration,
    /// One request with its answer, the following of redirects included.
    pub request: Duration,
    /// One verb with all its requests, repetitions and waits for its turn.
    pub verb: Duration,
    /// Media until they are reported as inserted or gone.
    pub settle: Duration,
    /// Between two looks at media that settle.
    pub poll: Duration,
    /// Between two tries of a request that a busy BMC turned down; spread by chance, and longer with each try.
    pub pause: Duration,
    /// Silence after which an answer on iLO 2's raw connection, which it does not close, counts as whole.
    pub quiet: Duration,
    /// How long a BMC is left alone after it failed to answer three times; doubled up to sixteen times while it stays so.
    pub rest: Duration,
    /// A request that changes something is not sent if the fence leaves it less than this.
    pub least_window: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            request: Duration::from_secs(30),
            verb: Duration::from_secs(120),
            settle: Duration::from_secs(20),
            poll: Duration::from_millis(500),
            pause: Duration::from_secs(3),
            quiet: Duration::from_secs(1),
            rest: Duration::from_secs(4),
            least_window: Duration::from_secs(1),
        }
    }
}

/// The address as an origin; `Settings` says what is wrong with it.
pub(crate) fn origin(address: &BmcAddress) -> Result<Url, BmcError> {
    let wrong = |shown: &str, reason: &str| BmcError::Settings {
        address: BmcAddress(shown.to_owned()),
        reason: reason.to_owned(),
    };
    // An address with credentials in it is not repeated.
    if address.0.contains('@') {
        let reason = "the address holds `@`: give an origin such as https://10.1.2.3, and user and password apart";
        return Err(wrong("(not shown)", reason));
    }
    let url = Url::parse(&address.0)
        .map_err(|_| wrong(&address.0, "not an address: give an origin such as https://10.1.2.3"))?;
    if !matches!(url.scheme(), "https" | "http") || url.host_str().is_none_or(str::is_empty) {
        return Err(wrong(
            &address.0,
            "the address must be https://HOST or https://HOST:PORT",
        ));
    }
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        let reason = "the address must be an origin, without a path";
        return Err(wrong(&address.0, reason));
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_an_origin() {
        for good in ["https://10.1.2.3", "https://[fd00::1]:8443/", "http://ilo.example"] {
            assert!(origin(&BmcAddress(good.into())).is_ok(), "{good}");
        }
        for bad in [
            "",
            "10.1.2.3",
            "ftp://h",
            "https://h/redfish",
            "https://h?x",
            "https://",
        ] {
            let error = origin(&BmcAddress(bad.into())).unwrap_err();
            assert!(matches!(error, BmcError::Settings { .. }), "{bad}: {error}");
        }
    }

    #[test]
    fn credentials_in_an_address_are_refused_and_not_repeated() {
        let error = origin(&BmcAddress("https://admin:hunter2@h".into())).unwrap_err();
        assert!(!error.to_string().contains("hunter2"), "{error}");
    }
}
