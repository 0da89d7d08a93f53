//! Why a secure connection failed, in words for the user.

use std::error::Error as StdError;
use std::io;

/// A failure of TLS.
#[derive(Debug)]
pub enum TlsFailure {
    /// The server answered with something other than TLS.
    NotSpoken,
    /// One side refused the connection.
    Refused {
        /// Why, as the end of a sentence.
        reason: String,
        /// What to do.
        hint: &'static str,
    },
}

/// Returns the failure of TLS that caused an error; `None` if another layer failed.
pub fn tls_failure(error: &reqwest::Error) -> Option<TlsFailure> {
    let reason = match causes(error).find_map(tls_error)? {
        rustls::Error::InvalidMessage(_) => return Some(TlsFailure::NotSpoken),
        rustls::Error::InvalidCertificate(fault) => match fault_words(fault) {
            Some((words, hint)) => {
                return Some(TlsFailure::Refused {
                    reason: words.to_owned(),
                    hint,
                });
            }
            None => format!("its certificate is not trusted: {fault:?}"),
        },
        other => other.to_string(),
    };
    Some(TlsFailure::Refused {
        reason,
        hint: "a private certificate authority belongs in the system's certificates, or in SSL_CERT_FILE; the daemon reads a new value only when it is restarted: aish-helper restart",
    })
}

/// Returns the fault of a certificate, in words, and the remedy; `None` for a fault that trusting its authority would fix.
fn fault_words(fault: &rustls::CertificateError) -> Option<(&'static str, &'static str)> {
    use rustls::CertificateError as Fault;
    match fault {
        Fault::NotValidForName | Fault::NotValidForNameContext { .. } => Some((
            "its certificate is for another name",
            "use a name that is in the certificate",
        )),
        Fault::Expired | Fault::ExpiredContext { .. } => {
            Some(("its certificate has expired", "renew it there"))
        }
        Fault::NotValidYet | Fault::NotValidYetContext { .. } => Some((
            "its certificate is not valid yet",
            "check the clocks of both machines",
        )),
        Fault::Other(other) if other.to_string().contains("CaUsedAsEndEntity") => Some((
            "its certificate is a CA certificate, not a server certificate",
            "create a server certificate; with openssl req -x509, add -addext basicConstraints=CA:FALSE",
        )),
        _ => None,
    }
}

/// The error and its causes, from the outside in.
pub fn causes(error: &reqwest::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    let mut next: Option<&(dyn StdError + 'static)> = Some(error);
    std::iter::from_fn(move || {
        let cause = next?;
        next = cause.source();
        Some(cause)
    })
}

/// The innermost error inside nested IO errors, whose `source` skips the error that they wrap.
pub fn innermost<'a>(mut error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    while let Some(inner) = error
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
    {
        error = inner;
    }
    error
}

fn tls_error<'a>(error: &'a (dyn StdError + 'static)) -> Option<&'a rustls::Error> {
    innermost(error).downcast_ref()
}
