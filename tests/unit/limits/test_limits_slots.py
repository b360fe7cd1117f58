import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from redis import crc

from rlctl.limits.slots import hash_tag, key_slot


@pytest.mark.parametrize(
    ("key", "tag"),
    [
        ("rl:{u1}:a", "u1"),
        ("rl:{u1}{u2}", "u1"),
        ("rl:{}:a", "rl:{}:a"),
        ("rl:{u1", "rl:{u1"),
        ("rl}:{u1}", "u1"),
        ("plain", "plain"),
    ],
)
def test_the_tag_of_a_key_is_that_of_the_cluster_specification(key: str, tag: str) -> None:
    """As CLUSTER KEYSLOT says of them: empty or open braces are none."""
    assert hash_tag(key) == tag


@given(key=st.text(alphabet=st.sampled_from("{}ab:é"), min_size=1))
@example(key="123456789")
def test_the_slot_is_that_of_another_client(key: str) -> None:
    assert key_slot(key) == crc.key_slot(key.encode())
