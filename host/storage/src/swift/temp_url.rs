//! Temporary URLs (Swift's `tempurl` middleware): a GET of one path, signed with the account's key until a second in time.
//! Pure.

use hmac::Hmac;
use model::Secret;
use percent_encoding::percent_decode_str;
use sha1::Sha1;
use sha2::{Sha256, Sha512};
use url::Url;

/// What a signature is made with.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Algorithm {
    Sha1,
    Sha256,
    Sha512,
}

impl Algorithm {
    /// The best one of those that a cluster allows. SHA-512 comes after SHA-256: its URLs are longer than some BMCs take, and
    /// for a signature the one is as good as the other.
    pub(crate) fn of(allowed: &[String]) -> Option<Self> {
        let known = [("sha256", Self::Sha256), ("sha512", Self::Sha512), ("sha1", Self::Sha1)];
        known
            .into_iter()
            .find(|(name, _)| allowed.iter().any(|allowed| allowed == name))
            .map(|(_, algorithm)| algorithm)
    }

    fn sign(self, key: &Secret, text: &str) -> String {
        let (key, text) = (key.expose().as_bytes(), text.as_bytes());
        match self {
            Self::Sha1 => mac::<Hmac<Sha1>>(key, text),
            Self::Sha256 => mac::<Hmac<Sha256>>(key, text),
            Self::Sha512 => mac::<Hmac<Sha512>>(key, text),
        }
    }
}

fn mac<M: hmac::Mac + hmac::KeyInit>(key: &[u8], text: &[u8]) -> String {
    use std::fmt::Write as _;
    let mut mac = <M as hmac::KeyInit>::new_from_slice(key).expect("an HMAC takes a key of any length");
    mac.update(text);
    let mut digits = String::new();
    for byte in mac.finalize().into_bytes() {
        let _ = write!(digits, "{byte:02x}");
    }
    digits
}

/// The URL of an object, good for GET and HEAD until that second after 1970.
///
/// Some BMCs look at the last characters of a URL for what it is, so it ends as the object's name does; Swift only names
/// a download by it.
pub(crate) fn sign(object: &Url, key: &Secret, algorithm: Algorithm, expires: u64) -> String {
    let ending = object.path().rsplit_once('.').map_or("img", |(_, ending)| ending);
    format!("{}&filename=f.{ending}", bare(object, key, algorithm, expires))
}

/// The same for somebody who does not look at how it ends.
pub(crate) fn bare(object: &Url, key: &Secret, algorithm: Algorithm, expires: u64) -> String {
    // What is signed is the path as the server sees it, unescaped.
    let path = percent_decode_str(object.path()).decode_utf8_lossy();
    let signature = algorithm.sign(key, &format!("GET\n{expires}\n{path}"));
    format!("{object}?temp_url_sig={signature}&temp_url_expires={expires}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(algorithm: Algorithm, signature: &str) {
        let object = Url::parse("https://swift.example/v1/AUTH_x/c/a.iso").unwrap();
        let url = sign(&object, &Secret::new("mykey"), algorithm, 1_323_479_485);
        assert_eq!(
            url,
            format!("{object}?temp_url_sig={signature}&temp_url_expires=1323479485&filename=f.iso")
        );
    }

    /// `printf 'GET\n1323479485\n/v1/AUTH_x/c/a.iso' | openssl dgst -sha256 -hmac mykey`
    #[test]
    fn signatures_are_those_that_openssl_makes() {
        check(Algorithm::Sha1, "1f93bfdc1f598e8241faa82bcfae85805ce9a0ed");
        check(
            Algorithm::Sha256,
            "8d1f8ed8fef2b3f1d3b38ef906cd3c043565c114777214c22a989a8732133e0b",
        );
        check(
            Algorithm::Sha512,
            "3dcf89f37a9a7fff27b56df3c428e2dc2772dbfecef595a844b9c9aa4d2ff739e8bc586f7041f66862e0769ea34770153f8e24ca56796726461e502a53daff8a",
        );
    }

    #[test]
    fn the_best_allowed_algorithm_is_taken_and_an_unknown_one_is_no_reason_to_fail() {
        for (allowed, best) in [
            (vec!["sha1", "sha256", "sha512"], Some(Algorithm::Sha256)),
            (vec!["sha1", "sha512"], Some(Algorithm::Sha512)),
            (vec!["sha1", "sha3"], Some(Algorithm::Sha1)),
            (vec!["sha3"], None),
            (vec![], None),
        ] {
            let allowed: Vec<String> = allowed.into_iter().map(str::to_owned).collect();
            assert_eq!(Algorithm::of(&allowed), best, "{allowed:?}");
        }
    }

    #[test]
    fn a_path_is_signed_as_the_server_sees_it() {
        let escaped = Url::parse("https://h/v1/AUTH_a%20b/c/a.img").unwrap();
        let key = Secret::new("k");
        let expected = Algorithm::Sha256.sign(&key, "GET\n7\n/v1/AUTH_a b/c/a.img");
        assert!(sign(&escaped, &key, Algorithm::Sha256, 7).contains(&expected));
    }
}
