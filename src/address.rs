//! Where an address leads: to this machine, to a network of the user's own, or through the hands of
//! others. Pure: no name is looked up.

use std::net::IpAddr;

use reqwest::Url;

/// Refuses to send a key in clear over a network that is not the user's own.
///
/// Private addresses written as numbers pass: a model server in the same house or VPN mostly has no
/// certificate. Names do not, since whoever answers for the name would get the key.
///
/// # Errors
/// In words that follow where the address is written.
pub fn clear_text(url: &Url) -> Result<(), String> {
    if url.scheme() == "https" || is_loopback(url) || is_private(url) {
        return Ok(());
    }
    Err(
        "the key would cross the network in clear: use https://, or a numeric private address"
            .into(),
    )
}

fn address(url: &Url) -> Option<IpAddr> {
    // `Url` has already brought every spelling of an address (octal, hex, short) to this one.
    url.host_str()?
        .trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

/// Does the address lead to this machine and nowhere else?
pub fn is_loopback(url: &Url) -> bool {
    match address(url) {
        Some(ip) => ip.to_canonical().is_loopback(),
        None => url.host_str() == Some("localhost"),
    }
}

/// Does the address, written as a number, lead to a network of the user's own?
pub fn is_private(url: &Url) -> bool {
    match address(url).map(|ip| ip.to_canonical()) {
        // 100.64.0.0/10 is what overlay networks give out.
        Some(IpAddr::V4(ip)) => {
            ip.is_private() || (ip.octets()[0] == 100 && (64..128).contains(&ip.octets()[1]))
        }
        Some(IpAddr::V6(ip)) => ip.is_unique_local(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_crosses_only_ones_own_networks_in_clear() {
        let of = |text: &str| clear_text(&Url::parse(text).unwrap());
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
}
