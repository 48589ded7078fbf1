//! The keys and certificates of one control plane, good for a day. Must not be used for anything that lives longer.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
};

/// Files of one control plane, and its administrator's credentials as text.
pub struct Certificates {
    pub authority: PathBuf,
    pub server: PathBuf,
    pub server_key: PathBuf,
    /// Of tokens.
    pub signing_key: PathBuf,
    pub verifying_key: PathBuf,
    pub authority_pem: String,
    pub admin_pem: String,
    pub admin_key_pem: String,
}

impl Certificates {
    /// Makes them all in `folder`.
    ///
    /// # Errors
    /// A folder that cannot be written.
    pub fn make(folder: &Path) -> anyhow::Result<Certificates> {
        let mut of_authority = CertificateParams::default();
        of_authority
            .distinguished_name
            .push(DnType::CommonName, "test authority");
        of_authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        of_authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let key = KeyPair::generate()?;
        let authority = of_authority.self_signed(&key)?;
        let issuer = Issuer::new(of_authority, key);

        let names = ["127.0.0.1", "10.96.0.1", "localhost", "kubernetes.default.svc"];
        let mut of_server = CertificateParams::new(names.map(str::to_owned))?;
        of_server.distinguished_name.push(DnType::CommonName, "kube-apiserver");
        of_server.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let server_key = KeyPair::generate()?;
        let server = of_server.signed_by(&server_key, &issuer)?;

        let mut of_admin = CertificateParams::default();
        of_admin.distinguished_name.push(DnType::CommonName, "admin");
        of_admin
            .distinguished_name
            .push(DnType::OrganizationName, "system:masters");
        of_admin.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let admin_key = KeyPair::generate()?;
        let admin = of_admin.signed_by(&admin_key, &issuer)?;

        let signing_key = KeyPair::generate()?;
        let write = |name: &str, text: String| -> anyhow::Result<PathBuf> {
            let path = folder.join(name);
            std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
            Ok(path)
        };
        Ok(Certificates {
            authority: write("authority.pem", authority.pem())?,
            server: write("server.pem", server.pem())?,
            server_key: write("server-key.pem", server_key.serialize_pem())?,
            signing_key: write("signing-key.pem", signing_key.serialize_pem())?,
            verifying_key: write("verifying-key.pem", signing_key.public_key_pem())?,
            authority_pem: authority.pem(),
            admin_pem: admin.pem(),
            admin_key_pem: admin_key.serialize_pem(),
        })
    }
}
