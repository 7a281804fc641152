"""Judge a statement by in-toto's own bindings, which are made of its specification."""

from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import ParseDict
from in_toto_attestation.predicates.provenance.v1.provenance_pb2 import Provenance
from in_toto_attestation.v1.resource_descriptor import ResourceDescriptor
from in_toto_attestation.v1.statement import Statement
from in_toto_attestation.v1.statement_pb2 import Statement as StatementMessage

SLSA = "https://slsa.dev/provenance/v1"
DIGITS = {"sha256": 64, "gitCommit": 40}
"""The hexadecimal digits of a digest, which the bindings do not count."""


def require_valid(statement: Mapping[str, Any]) -> None:
    """Require an in-toto statement with the predicate of SLSA 1.

    A field that neither specification has, or of another type, raises ``ParseError``.
    """
    message = ParseDict(statement, StatementMessage())
    Statement.copy_from_pb(message).validate()
    assert message.predicate_type == SLSA
    provenance = ParseDict(statement["predicate"], Provenance())
    definition, details = provenance.build_definition, provenance.run_details
    assert ":" in definition.build_type
    assert ":" in details.builder.id
    assert definition.external_parameters
    for each in (*message.subject, *definition.resolved_dependencies, *details.byproducts):
        ResourceDescriptor.copy_from_pb(each).validate()
        for algorithm, value in each.digest.items():
            assert len(bytes.fromhex(value)) * 2 == DIGITS[algorithm]
