"""AWS MSK IAM: tokens of the signer for librdkafka, and the classes of the Java client."""

from importlib.util import find_spec
from pathlib import Path
from zipfile import BadZipFile, ZipFile

import structlog

log = structlog.get_logger()

AWS_MSK_IAM = "AWS_MSK_IAM"
SIGNER = "aws-msk-iam-sasl-signer-python"
JAR = "aws-msk-iam-auth"
RELEASES = "https://github.com/aws/aws-msk-iam-auth/releases"
_MODULE = "aws_msk_iam_sasl_signer"
_JAVA = "software.amazon.msk.auth.iam"
LOGIN_MODULE = f"{_JAVA}.IAMLoginModule"
CALLBACK_HANDLER = f"{_JAVA}.IAMClientCallbackHandler"


def token(region: str, _config: str) -> tuple[str, float]:
    """A token of the present AWS credentials, and its end in seconds since 1970: the `oauth_cb` of librdkafka."""
    from aws_msk_iam_sasl_signer import MSKAuthTokenProvider  # type: ignore[import-not-found]  # noqa: PLC0415

    try:
        signed, expires_ms = MSKAuthTokenProvider.generate_auth_token(region)
    except Exception as error:
        # librdkafka tells its caller of a missing token only.
        log.error("AWS gives no credentials for Kafka", reason=f"{type(error).__name__}: {error}")
        raise
    return signed, expires_ms / 1_000


def require_signer() -> None:
    """Raise ValueError where the signer's package is not installed."""
    if find_spec(_MODULE) is None:
        msg = f"{AWS_MSK_IAM} needs the Python package {SIGNER}, which is not installed here: pip install {SIGNER}"
        raise ValueError(msg)


def has_classes(jar: Path) -> bool:
    """Whether the jar has the classes of `JAR`."""
    try:
        with ZipFile(jar) as file:
            return f"{LOGIN_MODULE.replace('.', '/')}.class" in file.namelist()
    except (BadZipFile, OSError):
        return False
