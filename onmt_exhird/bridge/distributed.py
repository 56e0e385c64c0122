"""Several processes that train one model, on CPUs too, and end together."""

from __future__ import annotations

import signal
import traceback
from argparse import Namespace
from collections.abc import Callable
from multiprocessing.connection import wait
from typing import Any

import torch

from onmt_exhird.bridge.seams import Upstream
from onmt_exhird.bridge.signals import StopRequest
from onmt_exhird.errors import ExhirdError

_DYING = 5.0  # seconds that a killed process may take to end
_REMEDY = "the others have been ended; go on with -train_from and the last checkpoint"


def on_cpus(opt: Namespace) -> bool:
    """Whether the processes, which upstream puts on one GPU each, have none."""
    return getattr(opt, "world_size", 1) > 1 and not torch.cuda.is_available()


def tell_without_a_gpu(distributed: Upstream) -> None:
    """Upstream passes what its processes tell each other through GPUs, up to 4,096 bytes of it."""

    def all_gather_list(data: Any, max_size: int = 0) -> list[Any]:
        everyone = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(everyone, data)
        return everyone

    distributed.all_gather_list = all_gather_list


def ranks_are_not_gpus(module: Upstream) -> None:
    """Upstream takes a list of ranks for one of GPUs."""
    use_gpu = module.use_gpu
    module.use_gpu = lambda opt: use_gpu(opt) and not on_cpus(opt)


def processes_without_a_gpu(train_single: Upstream) -> None:
    """Upstream gives each of several processes a GPU; with ``-gpu_backend gloo`` CPUs do as well.

    For all but the place in its list of ranks such a process is on the device -1, which is the CPU.
    """
    configure, build_data = train_single.configure_process, train_single.build_dynamic_dataset_iter

    def configure_process(opt: Namespace, device_id: int) -> None:
        configure(opt, -1 if on_cpus(opt) else device_id)

    def build_data_iter(opt: Namespace, *args: Any, device_id: int = -1, **kwargs: Any) -> Any:
        return build_data(opt, *args, device_id=-1 if on_cpus(opt) else device_id, **kwargs)

    train_single.configure_process = configure_process
    train_single.build_dynamic_dataset_iter = build_data_iter


def run_one(function: Callable[..., None], opt: Namespace, device_id: int, failures: Any) -> None:
    """One of the processes; what goes wrong in it is told to the one that started it."""
    from onmt.utils.distributed import multi_init

    try:
        multi_init(opt, device_id)
        function(opt, device_id=device_id)
        torch.distributed.destroy_process_group()
    except KeyboardInterrupt:
        failures.put((opt.gpu_ranks[device_id], "interrupted", ""))
    except ExhirdError as error:
        failures.put((opt.gpu_ranks[device_id], str(error), ""))
    except Exception as error:
        failures.put((opt.gpu_ranks[device_id], f"{type(error).__name__}: {error}", traceback.format_exc()))


def end_together(train: Upstream) -> None:
    """Upstream waits for its processes one after the other: when one is killed, it waits for ever."""
    train_alone = train.train

    def train_together(opt: Namespace) -> None:
        if opt.world_size <= 1:
            train_alone(opt)
            return
        if on_cpus(opt) and opt.gpu_backend != "gloo":
            raise ExhirdError(
                f"-world_size is {opt.world_size}, but there is no GPU, and -gpu_backend {opt.gpu_backend} needs one: "
                "add -gpu_backend gloo to train on CPUs"
            )
        train.init_logger(opt.log_file)
        parser = train.ArgumentParser
        parser.validate_train_opts(opt)
        parser.update_model_opts(opt)
        parser.validate_model_opts(opt)
        context = torch.multiprocessing.get_context("spawn")
        failures = context.SimpleQueue()
        processes = [
            context.Process(target=run_one, args=(train.single_main, opt, device_id, failures))
            for device_id in range(len(opt.gpu_ranks))
        ]
        with StopRequest() as stop:
            for process in processes:
                process.start()
            try:
                watch(processes, opt.gpu_ranks, failures, stop)
            finally:
                for process in processes:
                    process.kill()
                    process.join()

    train.train = train_together


def watch(processes: list[Any], ranks: list[int], failures: Any, stop: StopRequest) -> None:
    """Wait until all have ended; as soon as one has failed, say which and why. Signals are passed on."""
    passed_on = False
    while running := [process for process in processes if process.exitcode is None]:
        wait([process.sentinel for process in running], timeout=0.2)
        if stop.by and not passed_on:
            passed_on = True
            for process in running:
                process.terminate()
        failure = None if failures.empty() else failures.get()
        if failure:  # where one is killed the others fail for want of it, perhaps before its end is seen
            others = {one.sentinel: one for rank, one in zip(ranks, processes, strict=True) if rank != failure[0]}
            for sentinel in wait(list(others), timeout=_DYING):
                others[sentinel].join()  # a sentinel is ready before the exit code is
        for rank, process in zip(ranks, processes, strict=True):
            if (process.exitcode or 0) < 0:
                name = signal.Signals(-process.exitcode).name
                raise ExhirdError(f"process {rank} was killed by {name}: {_REMEDY}")
        if failure:
            rank, message, trace = failure
            raise ExhirdError(f"process {rank} failed: {message}; {_REMEDY}" + (f"\n{trace}" if trace else ""))
