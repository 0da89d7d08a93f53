//! Network zones: whether an address leads to this machine, to a private network, or across the internet. Pure: no name
//! resolution.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use reqwest::Url;

/// Rejects sending an API key unencrypted over a network that is not private.
///
/// Numeric private addresses pass: a model server in the same LAN or VPN usually has no certificate. Names do not pass,
/// because an attacker who controls name resolution would get the key.
///
/// # Errors
/// The reason, phrased to follow the place where the address is written.
pub fn check_key_transport(url: &Url) -> Result<(), String> {
    if url.scheme() == "https" || is_loopback(url) || is_private(url) {
        return Ok(());
    }
    Err(
        "the key would cross the network in cleartext: use https://, or a numeric private address"
            .into(),
    )
}

/// Returns the origin of another aish server, as its URL names it: `https://HOST[:PORT]`, or `http` for this machine.
///
/// # Errors
/// The reason, phrased to follow the URL. It does not repeat any part of the URL, which may contain a secret.
pub fn server_origin(text: &str) -> Result<String, String> {
    let Ok(url) = Url::parse(text.trim()) else {
        return Err("is not a URL such as https://HOST:4096".into());
    };
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("begins with neither https:// nor http://".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(
            "contains a user name or a password: leave it out, the token is asked for".into(),
        );
    }
    if !matches!(url.path(), "" | "/") || url.query().is_some() || url.fragment().is_some() {
        return Err("has a path, a query or a fragment: give only https://HOST:PORT".into());
    }
    if url.scheme() == "http" && !is_loopback(&url) {
        return Err("is not encrypted: use https://, or forward the port to this machine (ssh -L 4096:127.0.0.1:4096 HOST)".into());
    }
    Ok(url.origin().ascii_serialization())
}

fn address(url: &Url) -> Option<IpAddr> {
    // `Url` has already normalised every spelling of an address (octal, hexadecimal, short).
    url.host_str()?
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

/// Whether the URL leads to this machine and nowhere else.
pub fn is_loopback(url: &Url) -> bool {
    match address(url) {
        Some(ip) => ip.to_canonical().is_loopback(),
        None => url.host_str() == Some("localhost"),
    }
}

/// Whether the URL has a numeric address in a private network.
pub fn is_private(url: &Url) -> bool {
    address(url).is_some_and(|ip| NetworkZone::of(ip) == NetworkZone::Inside)
}

/// Network zone of an address, ordered from outside to inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum NetworkZone {
    /// The internet.
    Outside,
    /// A private network: a LAN, a company network, a VPN.
    Inside,
    /// This machine.
    Here,
    /// Addresses that no service should be at: link-local addresses, which include the metadata services of clouds, and
    /// addresses that cannot belong to a host.
    Forbidden,
}

impl NetworkZone {
    /// Returns the zone of an IP address.
    pub fn of(ip: IpAddr) -> NetworkZone {
        match ip {
            IpAddr::V4(ip) => NetworkZone::of_v4(ip),
            IpAddr::V6(ip) => NetworkZone::of_v6(ip),
        }
    }

    fn of_v4(ip: Ipv4Addr) -> NetworkZone {
        let [a, b, c, _] = ip.octets();
        match (a, b, c) {
            (127, ..) => NetworkZone::Here,
            // 100.64.0.0/10 is used by overlay networks.
            (10, ..) | (172, 16..=31, _) | (192, 168, _) | (100, 64..=127, _) => {
                NetworkZone::Inside
            }
            (0, ..) | (169, 254, _) | (192, 0, 0) | (198, 18..=19, _) | (224.., ..) => {
                NetworkZone::Forbidden
            }
            _ => NetworkZone::Outside,
        }
    }

    fn of_v6(ip: Ipv6Addr) -> NetworkZone {
        let low = |high: u16, low: u16| {
            let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
            NetworkZone::of_v4(Ipv4Addr::new(a, b, c, d))
        };
        match ip.segments() {
            [0, 0, 0, 0, 0, 0, 0, 1] => NetworkZone::Here,
            // An IPv4 address embedded in IPv6: mapped, compatible, NAT64, 6to4.
            [0, 0, 0, 0, 0, 0 | 0xffff, a, b] | [0x64, 0xff9b, 0, 0, 0, 0, a, b] => low(a, b),
            [0x2002, a, b, ..] => low(a, b),
            // Teredo and local NAT64 also embed an IPv4 address, each in its own encoding.
            [0x2001, 0, ..] | [0x64, 0xff9b, 1, ..] => NetworkZone::Forbidden,
            [0xfc00..=0xfdff, ..] => NetworkZone::Inside,
            // Link-local, deprecated site-local, multicast.
            [0xfe80..=0xffff, ..] => NetworkZone::Forbidden,
            _ => NetworkZone::Outside,
        }
    }

    /// Returns the zone of a URL without name resolution: a name could lead anywhere and counts as outside, unless it
    /// can only mean this machine.
    pub fn named(url: &Url) -> NetworkZone {
        if let Some(ip) = address(url) {
            return NetworkZone::of(ip);
        }
        let host = url.host_str().unwrap_or_default().trim_end_matches('.');
        if host == "localhost" || host.ends_with(".localhost") {
            NetworkZone::Here
        } else {
            NetworkZone::Outside
        }
    }

    /// A phrase that follows an address.
    pub fn description(self) -> &'static str {
        match self {
            NetworkZone::Outside => "is on the internet",
            NetworkZone::Inside => "is in a private network",
            NetworkZone::Here => "is this machine",
            NetworkZone::Forbidden => "is not an address for a server",
        }
    }

    /// Whether a server in this zone may refer us to an address in zone `there`: no further inside than itself. A
    /// server in the forbidden zone counts as outside.
    fn may_refer_to(self, there: NetworkZone) -> bool {
        match there {
            NetworkZone::Outside => true,
            NetworkZone::Inside | NetworkZone::Here => {
                there <= self && self != NetworkZone::Forbidden
            }
            NetworkZone::Forbidden => false,
        }
    }

    /// Rejects an address further inside than this zone, so that a server cannot use the user's machine to reach what
    /// it cannot reach itself (SSRF).
    ///
    /// # Errors
    /// The address and its zone, phrased to follow what named the address.
    pub fn admits(self, ip: IpAddr) -> Result<(), String> {
        let place = NetworkZone::of(ip);
        if self.may_refer_to(place) {
            return Ok(());
        }
        Err(format!("{ip}, which {}", place.description()))
    }
}

/// Rejects a URL named by `server` if it leads further inside than the server's own zone (`from`), or would cross the
/// internet unencrypted. A server may always name its own origin.
///
/// # Errors
/// The reason, phrased to follow the URL.
pub fn check_referral(server: &Url, from: NetworkZone, url: &Url) -> Result<(), String> {
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none() {
        return Err("it is not a web address".into());
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it contains a user name".into());
    }
    if url.origin() == server.origin() {
        return Ok(());
    }
    let place = NetworkZone::named(url);
    if place == NetworkZone::Forbidden {
        return Err(format!("it {}", place.description()));
    }
    if !from.may_refer_to(place) {
        return Err(format!("it {}, and {server} is not", place.description()));
    }
    if url.scheme() != "https" && place == NetworkZone::Outside {
        return Err("it is not https".into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sent_unencrypted_only_over_private_networks() {
        let of = |text: &str| check_key_transport(&Url::parse(text).unwrap());
        for fine in [
            "https://example.com",
            "http://localhost:1",
            "http://127.1",
            "http://[::ffff:127.0.0.1]",
            "http://10.0.0.1",
            "http://100.64.0.1",
            "http://[fd00::1]",
        ] {
            assert_eq!(of(fine), Ok(()), "{fine}");
        }
        for bad in [
            "http://example.com",
            "http://127.0.0.1.example.com",
            "http://100.128.0.1",
            "http://8.8.8.8",
            "http://[2001:db8::1]",
        ] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_origin_of_a_server_is_all_that_its_url_may_have() {
        for (text, origin) in [
            ("https://host.example:4096", "https://host.example:4096"),
            ("https://HOST.example/", "https://host.example"),
            (" https://[2001:db8::1]:4096 ", "https://[2001:db8::1]:4096"),
            ("https://h:443", "https://h"),
            ("http://127.0.0.1:4096", "http://127.0.0.1:4096"),
            ("http://127.1:4096/", "http://127.0.0.1:4096"),
            ("http://localhost:4096", "http://localhost:4096"),
            ("http://[::1]:4096", "http://[::1]:4096"),
        ] {
            assert_eq!(server_origin(text).as_deref(), Ok(origin), "{text}");
        }
        for (text, why) in [
            ("host:4096", "begins with neither"),
            ("", "is not a URL"),
            ("https://", "is not a URL"),
            ("ftp://h", "begins with neither"),
            ("file:///etc", "begins with neither"),
            ("https://user@h", "contains a user name"),
            ("https://:secret@h", "contains a user name"),
            ("https://h/v1", "has a path"),
            ("https://h?token=secret", "has a path"),
            ("https://h/#secret", "has a path"),
            ("http://h:4096", "is not encrypted"),
            ("http://10.0.0.1:4096", "is not encrypted"),
            ("http://127.0.0.1.example.com", "is not encrypted"),
            ("http://localhost.example", "is not encrypted"),
        ] {
            let error = server_origin(text).unwrap_err();
            assert!(error.starts_with(why), "{text}: {error}");
            assert!(!error.contains("secret"), "{text}: {error}");
        }
    }

    #[test]
    fn numeric_addresses_have_the_expected_zone() {
        for (text, place) in [
            ("8.8.8.8", NetworkZone::Outside),
            ("100.63.255.255", NetworkZone::Outside),
            ("172.15.0.1", NetworkZone::Outside),
            ("172.32.0.1", NetworkZone::Outside),
            ("198.20.0.1", NetworkZone::Outside),
            ("2606:4700::1", NetworkZone::Outside),
            ("::ffff:8.8.8.8", NetworkZone::Outside),
            ("2002:808:808::", NetworkZone::Outside),
            ("10.1.2.3", NetworkZone::Inside),
            ("172.16.0.1", NetworkZone::Inside),
            ("172.31.255.255", NetworkZone::Inside),
            ("192.168.1.1", NetworkZone::Inside),
            ("100.64.0.1", NetworkZone::Inside),
            ("fd00::1", NetworkZone::Inside),
            ("fc00::1", NetworkZone::Inside),
            ("::ffff:10.0.0.1", NetworkZone::Inside),
            ("64:ff9b::192.168.0.1", NetworkZone::Inside),
            ("2002:a00:1::", NetworkZone::Inside),
            ("127.0.0.1", NetworkZone::Here),
            ("127.255.0.9", NetworkZone::Here),
            ("::1", NetworkZone::Here),
            ("::ffff:127.0.0.1", NetworkZone::Here),
            ("::127.0.0.1", NetworkZone::Here),
            ("2002:7f00:1::", NetworkZone::Here),
            ("0.0.0.0", NetworkZone::Forbidden),
            ("::", NetworkZone::Forbidden),
            ("169.254.169.254", NetworkZone::Forbidden),
            ("::ffff:169.254.169.254", NetworkZone::Forbidden),
            ("64:ff9b::169.254.169.254", NetworkZone::Forbidden),
            ("192.0.0.192", NetworkZone::Forbidden),
            ("198.18.0.1", NetworkZone::Forbidden),
            ("224.0.0.1", NetworkZone::Forbidden),
            ("255.255.255.255", NetworkZone::Forbidden),
            ("fe80::1", NetworkZone::Forbidden),
            ("fec0::1", NetworkZone::Forbidden),
            ("ff02::1", NetworkZone::Forbidden),
            ("2001::1", NetworkZone::Forbidden),
            ("64:ff9b:1::a00:1", NetworkZone::Forbidden),
        ] {
            assert_eq!(NetworkZone::of(text.parse().unwrap()), place, "{text}");
        }
    }

    #[test]
    fn a_server_cannot_refer_to_an_address_further_inside() {
        let check = |server: &str, url: &str| {
            let server = Url::parse(server).unwrap();
            check_referral(
                &server,
                NetworkZone::named(&server),
                &Url::parse(url).unwrap(),
            )
        };
        let (public, private, local) = (
            "https://mcp.example.com/mcp",
            "https://10.0.0.5/mcp",
            "http://127.0.0.1:3000/mcp",
        );
        for (server, url) in [
            (public, "https://auth.example.com/token"),
            (public, "https://8.8.8.8/token"),
            (public, "https://mcp.example.com/register"),
            (private, "https://auth.example.com/"),
            (private, "http://10.0.0.9:8080/"),
            (private, "http://[fd00::1]/"),
            (local, "https://auth.example.com/"),
            (local, "http://127.0.0.1:4000/"),
            (local, "http://localhost:4000/"),
            (local, "http://[::1]:4000/"),
            (local, "https://10.0.0.9/"),
        ] {
            assert_eq!(check(server, url), Ok(()), "{server} {url}");
        }
        let this = "it is this machine";
        let network = "it is in a private network";
        let nowhere = "it is not an address for a server";
        for (server, url, why) in [
            (public, "https://127.0.0.1/", this),
            (public, "https://127.1/", this),
            (public, "https://2130706433/", this),
            (public, "https://0x7f.0.0.1/", this),
            (public, "https://localhost/", this),
            (public, "https://LOCALHOST./", this),
            (public, "https://a.localhost/", this),
            (public, "https://[::1]/", this),
            (public, "https://[::ffff:7f00:1]/", this),
            (public, "https://10.0.0.1/", network),
            (public, "https://192.168.0.1/", network),
            (public, "https://[fd00::1]/", network),
            (public, "https://169.254.169.254/latest/meta-data/", nowhere),
            (public, "https://[fe80::1]/", nowhere),
            (public, "https://0.0.0.0/", nowhere),
            (public, "http://auth.example.com/", "it is not https"),
            (public, "http://mcp.example.com/", "it is not https"),
            (public, "file:///etc/passwd", "it is not a web address"),
            (public, "javascript:alert(1)", "it is not a web address"),
            (public, "ftp://example.com/", "it is not a web address"),
            (public, "https://a@example.com/", "it contains a user name"),
            (private, "https://127.0.0.1/", this),
            (private, "https://169.254.169.254/", nowhere),
            (private, "http://auth.example.com/", "it is not https"),
            (local, "http://169.254.169.254/", nowhere),
            ("http://0.0.0.0/mcp", "https://127.0.0.1/", this),
            ("http://169.254.1.1/mcp", "https://10.0.0.1/", network),
            (local, "http://auth.example.com/", "it is not https"),
        ] {
            let message = check(server, url).unwrap_err();
            assert!(message.starts_with(why), "{server} {url}: {message}");
        }
    }
}
