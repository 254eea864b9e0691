import numpy as np
import torch

from model.randomness import numpy_generator, torch_generator


def test_the_same_name_gives_the_same_stream():
    first, second = (numpy_generator(3, "order").random(4) for _ in range(2))
    assert first.tolist() == second.tolist()
    first, second = (torch.rand(4, generator=torch_generator(3, "dropout")) for _ in range(2))
    assert first.tolist() == second.tolist()


def test_streams_differ_by_seed_and_by_every_name():
    seeds = [(0,), (1,), (0, "a"), (0, "b"), (0, "a", "b"), (0, "ab"), (0, "a", "a")]
    assert len({numpy_generator(*s).integers(2**62) for s in seeds}) == len(seeds)
    draws = {int(torch.randint(2**62, (), generator=torch_generator(*s))) for s in seeds}
    assert len(draws) == len(seeds)


def test_a_stream_is_the_same_on_every_machine():
    # Written down once: stored results rest on these streams.
    assert numpy_generator(0, "order").integers(1000, size=3).tolist() == [578, 216, 27]
    drawn = torch.randint(1000, (3,), generator=torch_generator(0, "dropout"))
    assert drawn.tolist() == [563, 102, 410]


def test_no_stream_touches_global_state():
    before, torch_before = np.random.get_state()[1].copy(), torch.get_rng_state()  # noqa: NPY002
    numpy_generator(0, "order").random(10)
    torch.rand(10, generator=torch_generator(0, "dropout"))
    assert (np.random.get_state()[1] == before).all()  # noqa: NPY002
    assert torch.equal(torch.get_rng_state(), torch_before)
