package keda

import (
	"cmp"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
	"github.com/setpoint-dev/setpoint/internal/protofields"
)

// TokenKey and TokenFromEnvKey are keys of a trigger's metadata for a token. KEDA replaces
// the value of a key that ends in FromEnv from the environment of the workload's container.
const (
	TokenKey        = "token"
	TokenFromEnvKey = "tokenFromEnv"
)

// Tokens returns for each method how to extract the token from an encoded message: "" if it
// has none, or can't be read. The rest stays encoded, because the caller is not
// authenticated yet.
func Tokens() map[string]func([]byte) string {
	ofReference := func(message []byte) string { return tokenIn([][]byte{message}) }
	return map[string]func([]byte) string{
		externalscaler.ExternalScaler_GetMetricSpec_FullMethodName:    ofReference,
		externalscaler.ExternalScaler_IsActive_FullMethodName:         ofReference,
		externalscaler.ExternalScaler_StreamIsActive_FullMethodName:   ofReference,
		externalscaler.ExternalScaler_StreamMetricSpec_FullMethodName: ofReference,
		externalscaler.ExternalScaler_GetMetrics_FullMethodName: func(message []byte) string {
			return tokenIn(fields(message, referenceField))
		},
	}
}

// Fields of KEDA's messages.
const (
	referenceField = 1 // GetMetricsRequest.scaledObjectRef
	metadataField  = 3 // ScaledObjectRef.scalerMetadata
	keyField       = 1 // a map entry's key
	valueField     = 2
)

// tokenIn returns the token of a reference, which may be split into several parts.
func tokenIn(references [][]byte) string {
	var token, fromEnv string
	for _, reference := range references {
		for _, entry := range fields(reference, metadataField) {
			switch string(last(fields(entry, keyField))) {
			case TokenKey:
				token = string(last(fields(entry, valueField)))
			case TokenFromEnvKey:
				fromEnv = string(last(fields(entry, valueField)))
			}
		}
	}
	return strings.TrimSpace(cmp.Or(token, fromEnv)) // a Secret that was made of a file has the end of its line
}

func last(all [][]byte) []byte {
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// fields returns the values of a length-delimited field; nil if the message is invalid.
func fields(message []byte, field protowire.Number) (values [][]byte) {
	var invalid error
	for f := range protofields.Of(message, &invalid) {
		if f.Number == field && f.Value != nil {
			values = append(values, f.Value)
		}
	}
	if invalid != nil {
		return nil
	}
	return values
}
