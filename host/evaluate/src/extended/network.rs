//! `ip` and `cidr`: addresses of networks. An IPv4 address that is written as an IPv6 one, and one with a zone, are refused.

use super::{Arguments, Returned, argument, function, method, opaque, owned, text_at, type_of};
use cel::common::types::{CelBool, CelInt, CelString, STRING_TYPE};
use cel::common::value::CowVal;
use cel::{DeclarationError, Env, ExecutionError};
use ipnet::IpNet;
use std::net::IpAddr;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ip(IpAddr);

opaque!(Ip, "net.IP");

/// With the address as it was given: `10.0.0.1/8` and `10.0.0.0/8` are not equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cidr(IpNet);

opaque!(Cidr, "net.CIDR");

pub(super) fn ip_of(text: &str) -> Option<IpAddr> {
    let address: IpAddr = text.parse().ok()?;
    let is_mapped = matches!(address, IpAddr::V6(six) if six.to_ipv4_mapped().is_some());
    (!is_mapped).then_some(address)
}

pub(super) fn cidr_of(text: &str) -> Option<IpNet> {
    let (address, length) = text.rsplit_once('/')?;
    let is_written_plainly = !length.starts_with(['0', '+']) || length == "0";
    let length = length.parse().ok().filter(|_| is_written_plainly)?;
    IpNet::new(ip_of(address)?, length).ok()
}

pub(super) fn register(env: &mut Env) -> Result<(), DeclarationError> {
    let (ip_type, cidr_type) = (type_of::<Ip>, type_of::<Cidr>);
    env.add_type(ip_type())?;
    env.add_type(cidr_type())?;
    function(env, "ip", vec![STRING_TYPE], ip)?;
    function(env, "isIP", vec![STRING_TYPE], is_ip)?;
    function(env, "ip.isCanonical", vec![STRING_TYPE], is_canonical)?;
    function(env, "cidr", vec![STRING_TYPE], cidr)?;
    function(env, "isCIDR", vec![STRING_TYPE], is_cidr)?;
    function(env, "string", vec![ip_type()], text_of_ip)?;
    function(env, "string", vec![cidr_type()], text_of_cidr)?;
    let of_ip = || (ip_type(), vec![]);
    method(env, "family", of_ip(), family)?;
    method(env, "isUnspecified", of_ip(), is_unspecified)?;
    method(env, "isLoopback", of_ip(), is_loopback)?;
    method(env, "isLinkLocalMulticast", of_ip(), is_link_local_multicast)?;
    method(env, "isLinkLocalUnicast", of_ip(), is_link_local_unicast)?;
    method(env, "isGlobalUnicast", of_ip(), is_global_unicast)?;
    for other in [ip_type(), STRING_TYPE] {
        method(env, "containsIP", (cidr_type(), vec![other]), contains_ip)?;
    }
    for other in [cidr_type(), STRING_TYPE] {
        method(env, "containsCIDR", (cidr_type(), vec![other]), contains_cidr)?;
    }
    method(env, "ip", (cidr_type(), vec![]), ip_of_cidr)?;
    method(env, "masked", (cidr_type(), vec![]), masked)?;
    method(env, "prefixLength", (cidr_type(), vec![]), prefix_length)
}

fn invalid(name: &'static str) -> impl Fn() -> ExecutionError {
    move || ExecutionError::function_error(name, "text")
}

fn truth<'b, 'v>(value: bool) -> Returned<'b, 'v> {
    Ok(owned(CelBool::from(value)))
}

fn ip<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let address = ip_of(text_at(&args, 0)?).ok_or_else(invalid("ip"))?;
    Ok(owned(Ip(address)))
}

fn is_ip<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    truth(ip_of(text_at(&args, 0)?).is_some())
}

/// Whether the text of the address is the one that it would be written as.
fn is_canonical<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let text = text_at(&args, 0)?;
    let address = ip_of(text).ok_or_else(invalid("ip.isCanonical"))?;
    truth(address.to_string() == text)
}

fn cidr<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let network = cidr_of(text_at(&args, 0)?).ok_or_else(invalid("cidr"))?;
    Ok(owned(Cidr(network)))
}

fn is_cidr<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    truth(cidr_of(text_at(&args, 0)?).is_some())
}

fn address(args: &[CowVal<'_, '_>]) -> Result<IpAddr, ExecutionError> {
    argument::<Ip>(args, 0).map(|ip| ip.0)
}

fn network(args: &[CowVal<'_, '_>]) -> Result<IpNet, ExecutionError> {
    argument::<Cidr>(args, 0).map(|cidr| cidr.0)
}

fn text_of_ip<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(CelString::from(address(&args)?.to_string())))
}

fn text_of_cidr<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(CelString::from(network(&args)?.to_string())))
}

fn family<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let family = if address(&args)?.is_ipv4() { 4 } else { 6 };
    Ok(owned(CelInt::from(family)))
}

fn is_unspecified<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    truth(address(&args)?.is_unspecified())
}

fn is_loopback<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    truth(address(&args)?.is_loopback())
}

fn is_link_local_multicast<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    truth(match address(&args)? {
        IpAddr::V4(four) => matches!(four.octets(), [224, 0, 0, _]),
        // The flags may be any (RFC 4291, 2.7).
        IpAddr::V6(six) => six.segments()[0] & 0xff0f == 0xff02,
    })
}

fn is_link_local_unicast<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    truth(link_local_unicast(address(&args)?))
}

fn link_local_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    }
}

/// What is none of the special ones; a private address is one.
fn is_global_unicast<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let address = address(&args)?;
    let is_broadcast = matches!(address, IpAddr::V4(four) if four.is_broadcast());
    let is_special = address.is_unspecified() || address.is_loopback() || address.is_multicast();
    truth(!is_special && !is_broadcast && !link_local_unicast(address))
}

fn contains_ip<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let other = match argument::<Ip>(&args, 1) {
        Ok(ip) => ip.0,
        Err(_) => ip_of(text_at(&args, 1)?).ok_or_else(invalid("containsIP"))?,
    };
    truth(network(&args)?.contains(&other))
}

fn contains_cidr<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    let other = match argument::<Cidr>(&args, 1) {
        Ok(cidr) => cidr.0,
        Err(_) => cidr_of(text_at(&args, 1)?).ok_or_else(invalid("containsCIDR"))?,
    };
    truth(network(&args)?.contains(&other))
}

fn ip_of_cidr<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(Ip(network(&args)?.addr())))
}

fn masked<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(Cidr(network(&args)?.trunc())))
}

fn prefix_length<'b, 'v>(args: Arguments<'b, 'v>) -> Returned<'b, 'v> {
    Ok(owned(CelInt::from(i64::from(network(&args)?.prefix_len()))))
}
