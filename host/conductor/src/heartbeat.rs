//! The token that a ramdisk is known by, and its heartbeat, checked against what we know of the node. The API calls it and
//! writes the result.

use std::time::SystemTime;

use agent::{CallbackError, CallbackPolicy};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use model::{AgentContact, Node, Secret};
use subtle::ConstantTimeEq;

/// What `POST /v1/heartbeat/{id}` carries.
#[derive(Debug, Clone)]
pub struct Heartbeat {
    /// Where the agent's command API is.
    pub callback_url: String,
    /// Its version.
    pub agent_version: Option<String>,
    /// The token that it was given.
    pub agent_token: Option<Secret>,
    /// PEM certificate that it serves with.
    pub agent_verify_ca: Option<String>,
}

/// Why a heartbeat is refused; the messages hold no token.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HeartbeatRefusal {
    /// No ramdisk of ours runs on this node.
    #[error("no ramdisk is expected on this node")]
    Unexpected,
    /// No token, or another one.
    #[error("the agent's token is missing or wrong")]
    Token,
    /// It called from elsewhere before; an agent does not move.
    #[error("the agent's call-back URL changed since its first heartbeat")]
    Moved,
    /// It had another certificate before.
    #[error("the agent's certificate changed since its first heartbeat")]
    CertificateChanged,
    /// Its certificate is too long to be one.
    #[error("the agent's certificate is longer than 64 KiB")]
    CertificateTooLong,
    /// The site does not let us call it back.
    #[error(transparent)]
    Callback(CallbackError),
}

/// Longest certificate that is kept.
const CERTIFICATE_BYTES: usize = 64 << 10;

/// A fresh agent token: 256 random bits in 43 characters that survive kernel lines and URLs (agents want 32 or more).
pub fn fresh_token() -> Secret {
    Secret::new(URL_SAFE_NO_PAD.encode(rand::random::<[u8; 32]>()))
}

/// What to keep of the agent after this heartbeat, or why it is refused. URL and certificate are pinned at the first one.
pub fn accept(
    node: &Node,
    beat: &Heartbeat,
    policy: &CallbackPolicy,
    now: SystemTime,
) -> Result<AgentContact, HeartbeatRefusal> {
    let known = &node.agent;
    let Some(token) = &known.token else {
        return Err(HeartbeatRefusal::Unexpected);
    };
    let given = beat.agent_token.as_ref().map_or("", Secret::expose);
    if !bool::from(token.expose().as_bytes().ct_eq(given.as_bytes())) {
        return Err(HeartbeatRefusal::Token);
    }
    policy.check(&beat.callback_url).map_err(HeartbeatRefusal::Callback)?;
    if known.callback_url.as_ref().is_some_and(|url| *url != beat.callback_url) {
        return Err(HeartbeatRefusal::Moved);
    }
    if beat
        .agent_verify_ca
        .as_ref()
        .is_some_and(|pem| pem.len() > CERTIFICATE_BYTES)
    {
        return Err(HeartbeatRefusal::CertificateTooLong);
    }
    if known.last_heartbeat.is_some() && known.certificate != beat.agent_verify_ca {
        return Err(HeartbeatRefusal::CertificateChanged);
    }
    let version = beat.agent_version.as_ref();
    Ok(AgentContact {
        callback_url: Some(beat.callback_url.clone()),
        version: version.map(|version| version.chars().take(80).collect()),
        certificate: beat.agent_verify_ca.clone(),
        last_heartbeat: Some(now),
        token: Some(token.clone()),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::testing::node;

    fn policy() -> CallbackPolicy {
        CallbackPolicy {
            require_tls: true,
            networks: vec!["10.1.0.0/16".parse().unwrap()],
        }
    }

    fn beat(token: &str) -> Heartbeat {
        Heartbeat {
            callback_url: "https://10.1.2.3:9999".to_owned(),
            agent_version: Some("13.0".to_owned()),
            agent_token: Some(Secret::new(token)),
            agent_verify_ca: Some("PEM".to_owned()),
        }
    }

    #[test]
    fn tokens_are_long_plain_and_never_the_same() {
        let (a, b) = (fresh_token(), fresh_token());
        assert!(a.expose().len() >= 32 && a != b);
        assert!(
            a.expose()
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || b"-_".contains(&c))
        );
    }

    #[test]
    fn the_first_heartbeat_pins_and_later_ones_must_match() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(100);
        let mut node = node();
        let accept = |node: &Node, beat: &Heartbeat| accept(node, beat, &policy(), now);
        assert_eq!(accept(&node, &beat("t")), Err(HeartbeatRefusal::Unexpected));

        node.agent.token = Some(Secret::new("token"));
        for wrong in [Some(Secret::new("Token")), Some(Secret::new("token2")), None] {
            let agent_token = wrong;
            let beat = Heartbeat {
                agent_token,
                ..beat("")
            };
            assert_eq!(accept(&node, &beat), Err(HeartbeatRefusal::Token));
        }
        let contact = accept(&node, &beat("token")).unwrap();
        assert_eq!(contact.last_heartbeat, Some(now));
        assert_eq!(contact.certificate.as_deref(), Some("PEM"));
        node.agent = contact;
        assert!(accept(&node, &beat("token")).is_ok());

        let mut moved = beat("token");
        moved.callback_url = "https://10.1.2.4:9999".to_owned();
        assert_eq!(accept(&node, &moved), Err(HeartbeatRefusal::Moved));
        for other in [Some("OTHER".to_owned()), None] {
            let mut swapped = beat("token");
            swapped.agent_verify_ca = other;
            assert_eq!(accept(&node, &swapped), Err(HeartbeatRefusal::CertificateChanged));
        }
    }

    #[test]
    fn an_agent_outside_the_sites_networks_is_refused() {
        let mut node = node();
        node.agent.token = Some(Secret::new("token"));
        for url in ["https://192.0.2.1:9999", "http://10.1.2.3:9999", "nonsense"] {
            let mut beat = beat("token");
            beat.callback_url = url.to_owned();
            let refusal = accept(&node, &beat, &policy(), SystemTime::UNIX_EPOCH).unwrap_err();
            assert!(matches!(refusal, HeartbeatRefusal::Callback(_)), "{url}: {refusal}");
        }
    }
}
