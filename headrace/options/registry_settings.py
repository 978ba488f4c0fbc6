"""How the schema registry is reached, for both directions."""

from dataclasses import dataclass

from headrace.options.choices import SubjectNameStrategy
from headrace.options.secret import Property, Secret, revealed


@dataclass(frozen=True, kw_only=True, slots=True)
class RegistrySettings:
    """The schema registry, for values and keys in its framing."""

    urls: tuple[str, ...]
    properties: tuple[Property, ...]
    auto_register: bool
    use_latest: bool = False
    subject_name_strategy: SubjectNameStrategy

    def client(self) -> dict[str, str]:
        """Return the properties for confluent-kafka's SchemaRegistryClient, secrets revealed."""
        return {"url": ",".join(self.urls), **revealed(self.properties)}


@dataclass(frozen=True, kw_only=True, slots=True)
class GlueSettings:
    """AWS Glue's schema registry; `login` is a text of `.token_logins`."""

    region: str
    endpoint: str | None
    login: Secret


@dataclass(frozen=True, kw_only=True, slots=True)
class GlueWriting:
    """How a source names its values' schemas in AWS Glue's registry; `schema` None: by the topic."""

    where: GlueSettings
    registry: str
    schema: str | None
    auto_register: bool
    use_latest: bool
    compatibility: str
