"""The identity of callers without a token."""

from nearkin.service.server.http.callers import client_network


def test_addresses_of_one_network_are_one_caller() -> None:
    assert (
        client_network("2001:db8:1:2:3::4")
        == client_network("2001:db8:1:2:ffff::1")
        != client_network("2001:db8:1:3::1")
    )
    assert (
        client_network("::ffff:192.0.2.7")
        == client_network("192.0.2.7")
        != client_network("192.0.2.8")
    )
    assert client_network("testclient") == "testclient"
