package setpoint

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
)

// TokenSource returns the bearer token for an attempt of a call. It is called on many
// goroutines.
type TokenSource func(ctx context.Context) (string, error)

// bearer sends a token with each call.
type bearer struct {
	token TokenSource
	// anywhere says that the token may travel unencrypted.
	anywhere bool
}

// GetRequestMetadata returns the header.
func (b bearer) GetRequestMetadata(ctx context.Context, _ ...string) (map[string]string, error) {
	token, err := b.token(ctx)
	if err != nil {
		return nil, fmt.Errorf("bearer token: %w", err)
	}
	return map[string]string{"authorization": "Bearer " + token}, nil
}

// RequireTransportSecurity makes gRPC keep the token off connections without TLS.
func (b bearer) RequireTransportSecurity() bool { return !b.anywhere }

// tokenFile is a token in a file.
type tokenFile struct {
	name string

	mu   sync.Mutex
	last string      // guarded by mu; empty: none was read yet
	info os.FileInfo // guarded by mu; of the file when last was read
}

// token reads the file if it is not the one read last, by identity, time and size.
func (f *tokenFile) token(context.Context) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.name)
	if err == nil && f.last != "" && sameFile(info, f.info) {
		return f.last, nil
	}
	var text []byte
	if err == nil {
		text, err = os.ReadFile(f.name)
	}
	token := strings.TrimSpace(string(text))
	switch {
	case err == nil && token != "":
		f.last, f.info = token, info
	case f.last != "": // it is being replaced
	case err != nil:
		return "", err
	default:
		return "", fmt.Errorf("%s is empty", f.name)
	}
	return f.last, nil
}

func sameFile(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}
