"""A copy of the server's store in a local file."""
from __future__ import annotations

import errno
import os
import pathlib
import shutil
import tempfile
from collections.abc import Callable
from typing import IO

from calibd import arguments
from calibd.errors import DataLoss
from calibd.transport import Transport, retry
from calibd.v1 import store_service_pb2 as store

# Bytes of the disk that a backup leaves free.
_RESERVE = 100 << 20


def download(transport: Transport, path: str | pathlib.Path,
             on_progress: Callable[[float], None] | None, timeout: float) -> int:
    """Writes the store of the server to a new file, durably; see Client.backup()."""
    path = arguments.file_path("path", path).absolute()
    timeout = arguments.seconds("timeout", timeout)
    arguments.expect("on_progress", on_progress, (Callable, type(None)), "a function")
    # Fails before the server computes anything; the link below fails if the file appears meanwhile.
    if path.exists():
        raise FileExistsError(f"{path} exists: a backup never replaces a file")
    # Only a complete backup gets its name.
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=path.name, suffix=".part") as part:
        size = retry(lambda remaining: _receive(transport, part, on_progress, remaining),
                     timeout, transport.timeout, transport.log_outage)
        os.link(part.name, path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return size


def _receive(transport: Transport, part: IO[bytes], on_progress: Callable[[float], None] | None,
             timeout: float) -> int:
    # Only backups need this module.
    import xxhash

    part.seek(0)
    part.truncate()
    digest = xxhash.xxh3_64()
    complete = None
    # A backup that does not end must not fill the disk.
    limit = shutil.disk_usage(part.name).free - _RESERVE
    with transport.server_stream("StoreService/Backup", store.BackupRequest(), store.BackupResponse,
                                 timeout) as call:
        for answer in call:
            kind = answer.WhichOneof("message")
            if kind == "data":
                if part.tell() + len(answer.data) > limit:
                    raise OSError(errno.ENOSPC, "the backup would leave less than "
                                  f"{_RESERVE >> 20} MiB of the disk free", part.name)
                part.write(answer.data)
                digest.update(answer.data)
            elif kind == "complete":
                complete = answer.complete
            elif on_progress is not None:
                on_progress(min(answer.progress.fraction, 1.0))
    # gRPC may report a broken message as a clean end of the stream.
    if complete is None:
        raise DataLoss("the server ended the backup before it was complete")
    size = part.tell()
    if (size, digest.intdigest()) != (complete.size_bytes, complete.hash):
        raise DataLoss(f"the backup arrived damaged: {size} bytes were received, "
                       f"{complete.size_bytes} were sent, or their checksums differ")
    part.flush()
    os.fsync(part.fileno())
    if on_progress is not None:
        on_progress(1.0)
    return size
