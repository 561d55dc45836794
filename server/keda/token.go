package keda

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/setpoint-dev/setpoint/api/externalscaler"
)

// TokenKey and TokenFromEnvKey are keys of a trigger's metadata that hold a token. KEDA reads
// the value of a key that ends in FromEnv from the environment of the workload's container.
const (
	TokenKey        = "token"
	TokenFromEnvKey = "tokenFromEnv"
)

// Tokens returns for each method how the token is read from a message, encoded: "" where it
// has none, or can't be read. Nothing is made of the rest: its caller is not known yet.
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
	referenceField = 1 // of GetMetricsRequest: scaledObjectRef
	metadataField  = 3 // of ScaledObjectRef: scalerMetadata
	keyField       = 1 // of an entry of a map
	valueField     = 2
)

// tokenIn is the token of a reference, which comes in one part or in several.
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
	if token == "" {
		return fromEnv
	}
	return token
}

func last(all [][]byte) []byte {
	if len(all) == 0 {
		return nil
	}
	return all[len(all)-1]
}

// fields are the values of a field of bytes; nil where the message can't be read.
func fields(message []byte, field protowire.Number) (values [][]byte) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return nil
		}
		message = message[n:]
		if number == field && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return nil
			}
			values, message = append(values, value), message[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return nil
		}
		message = message[n:]
	}
	return values
}
