package redis

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/store"
)

// Secret implements store.Secrets. The key belongs to no bucket.
func (s *Store) Secret(ctx context.Context, name string, proposal []byte) ([]byte, error) {
	if err := s.begin(ctx, "secret"); err != nil {
		return nil, err
	}
	key := s.options.KeyPrefix + "secret:" + name
	if secret, err := s.secret(ctx, "get", key); len(secret) > 0 || err != nil {
		return secret, err
	}
	if _, err := s.secret(ctx, "set", key, proposal, "nx"); err != nil {
		return nil, err
	}
	// Another instance may have set it.
	secret, err := s.secret(ctx, "get", key)
	if err == nil && len(secret) == 0 {
		err = fmt.Errorf("secret: %w: Redis does not keep %s", store.ErrUnavailable, key)
	}
	return secret, err
}

// secret runs one command.
func (s *Store) secret(ctx context.Context, args ...any) (secret []byte, err error) {
	errs := s.perform(ctx, 1, &exchange{
		operation: "secret",
		durable:   true,
		args:      func(int, bool) []any { return args },
		take: func(_ int, reply any, _ bool) error {
			text, _ := reply.(string)
			secret = []byte(text)
			return nil
		},
	})
	return secret, joined(errs)
}
