package signin

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/store"
)

const (
	secretName = "sign-in"
	// secretAge is how long the shared secret is cached: Redis may lose it, and another
	// instance create a new one.
	secretAge = time.Minute
	// secretTimeout limits a read of it, and secretFailureAge is how long it is not read again after
	// a failure.
	secretTimeout, secretFailureAge = 5 * time.Second, time.Second
)

// Purposes of sealed values: a value for one purpose is invalid for another.
const (
	forFlow    = "setpoint sign-in flow"
	forSession = "setpoint session"
)

// sealer seals cookies.
type sealer struct {
	secrets store.Secrets // nil: instances share none
	own     []byte

	secret cached[[]byte]
}

func newSealer(engine any) *sealer {
	secrets, _ := engine.(store.Secrets)
	return &sealer{secrets: secrets, own: newSecret()}
}

func newSecret() []byte {
	secret := make([]byte, 32)
	_, _ = rand.Read(secret) // it never fails
	return secret
}

// key returns the key for a purpose. While the store is unreachable, the last secret
// counts.
func (s *sealer) key(ctx context.Context, purpose string) (cipher.AEAD, error) {
	secret, err := s.shared(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoKey, err)
	}
	key, err := hkdf.Key(sha256.New, secret, nil, purpose, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCMWithRandomNonce(block)
}

func (s *sealer) shared(ctx context.Context) ([]byte, error) {
	if s.secrets == nil {
		return s.own, nil
	}
	return s.secret.get(ctx, secretAge, secretFailureAge, secretTimeout, func(ctx context.Context, last []byte) ([]byte, error) {
		// Never proposed before: who deletes a secret wants another.
		secret, err := s.secrets.Secret(ctx, secretName, newSecret())
		if err != nil && last != nil {
			return last, nil
		}
		return secret, err
	})
}

var (
	errNotSealed = errors.New("not sealed by this service, or with a key that it has lost")
	// errNoKey is the error while nobody knows whether a value is sealed by this service.
	errNoKey = errors.New("the key of cookies can't be read")
)

func (s *sealer) seal(ctx context.Context, purpose string, plain []byte) (string, error) {
	key, err := s.key(ctx, purpose)
	if err != nil {
		return "", err
	}
	return base64.RawURLEncoding.EncodeToString(key.Seal(nil, nil, plain, []byte(purpose))), nil
}

func (s *sealer) open(ctx context.Context, purpose, text string) ([]byte, error) {
	sealed, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, errNotSealed
	}
	key, err := s.key(ctx, purpose)
	if err != nil {
		return nil, err
	}
	plain, err := key.Open(nil, nil, sealed, []byte(purpose))
	if err != nil {
		return nil, errNotSealed
	}
	return plain, nil
}
