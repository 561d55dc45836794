package setpoint

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// TokenSource returns the bearer token for an attempt of a call. It is called on many
// goroutines.
type TokenSource func(ctx context.Context) (string, error)

// bearer sends a token with each call.
type bearer struct {
	token TokenSource
	// anywhere reports whether the token may travel unencrypted.
	anywhere bool
}

// GetRequestMetadata returns the header.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("bearer token: %w", err)
	}
	if token == "" {
		return nil, errors.New("bearer token: there is none")
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("bearer token: it has a line break, or another character that no header may have")
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity makes gRPC keep the token off connections without TLS.
func (b bearer) RequireTransportSecurity() bool { return !b.anywhere }
