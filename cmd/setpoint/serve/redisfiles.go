package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server/certs"
	"github.com/setpoint-dev/setpoint/store/redis"
)

// redisFiles are the files with the secrets for Redis, which are followed. Each may be nil: it
// is not given.
type redisFiles struct {
	password, sentinelPassword *files.Watched[string]
	certs                      *certs.Source

	// changed is when the last change was taken, also by a clock that is set meanwhile; nil: never.
	changed atomic.Pointer[time.Time]

	renewing sync.Mutex
	looked   time.Time // when the last look of renew began; guarded by renewing
	stop     context.CancelFunc
	done     sync.WaitGroup
}

// openFiles reads the files and follows them. Close the result.
func (s *redisSettings) openFiles(log *zap.Logger) (*redisFiles, error) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &redisFiles{stop: cancel}
	if err := f.open(ctx, s, log); err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

func (f *redisFiles) open(ctx context.Context, s *redisSettings, log *zap.Logger) (err error) {
	logged := logReload(log)
	changed := func(e files.Event) {
		if e.Err == nil {
			f.changed.Store(new(time.Now()))
		}
		logged(e)
	}
	for _, each := range []struct {
		flag, path string
		to         **files.Watched[string]
	}{
		{"redis-password-file", s.PasswordFile, &f.password},
		{"redis-sentinel-password-file", s.SentinelPasswordFile, &f.sentinelPassword},
	} {
		if each.path == "" {
			continue
		}
		options := files.Options{MaxBytes: files.MaxSecretBytes, OnChange: changed}
		watched, err := files.Open(parseSecret, options, each.path)
		if err != nil {
			return fmt.Errorf("--%s: %w", each.flag, err)
		}
		*each.to = watched
		f.done.Go(func() { watched.Run(ctx) })
	}
	o := s.TLSFiles
	if o.CAFile == "" && o.CertFile == "" {
		return nil
	}
	flag := "redis-tls-ca-file"
	if o.CertFile != "" {
		flag = "redis-tls-cert-file"
	}
	o.OnChange = changed
	o.OnExpiring = logExpiry(log, "the client certificate for Redis")
	f.certs, err = certs.New(o)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	f.done.Go(func() { f.certs.Run(ctx) })
	return nil
}

// errNoSecret is the error of a file that may be in the middle of a write.
var errNoSecret = errors.New("the file is empty")

// parseSecret reads a file with a password, or another secret.
func parseSecret(contents [][]byte) (string, error) {
	secret := strings.TrimRight(string(contents[0]), "\r\n")
	switch {
	case secret == "":
		return "", errNoSecret
	case strings.ContainsAny(secret, "\r\n"):
		return "", errors.New("the file has more than one line; it must have the secret alone")
	}
	return secret, nil
}

// secrets are what the store asks for.
func (f *redisFiles) secrets() (s redis.Secrets) {
	if f.password != nil {
		s.Password = f.password.Load
	}
	if f.sentinelPassword != nil {
		s.SentinelPassword = f.sentinelPassword.Load
	}
	if f.certs != nil {
		s.TLS = func(host string) *tls.Config {
			config := f.certs.ClientConfig(host)
			config.NextProtos = nil // it is not HTTP
			return config
		}
	}
	s.Renew = f.renew
	return s
}

// justChanged is how long after a change a refused attempt may have been made without it.
const justChanged = 10 * time.Second

// renew looks at the files now, once for all that wait meanwhile, and reports whether any has just
// changed: now, or since the caller's attempt was made.
func (f *redisFiles) renew(ctx context.Context) bool {
	asked := time.Now()
	f.renewing.Lock()
	defer f.renewing.Unlock()
	if began := time.Now(); !f.looked.After(asked) && ctx.Err() == nil {
		f.look(ctx)
		if ctx.Err() == nil {
			f.looked = began
		}
	}
	changed := f.changed.Load()
	return changed != nil && time.Since(*changed) < justChanged
}

func (f *redisFiles) look(ctx context.Context) {
	for _, watched := range []*files.Watched[string]{f.password, f.sentinelPassword} {
		if watched != nil {
			watched.Look(ctx)
		}
	}
	if f.certs != nil {
		_ = f.certs.Check() // OnChange got the error.
	}
}

func (f *redisFiles) close() {
	f.stop()
	f.done.Wait()
}

// redisFilesStatus is what is counted of the files; nil: not given.
type redisFilesStatus struct {
	password, sentinelPassword *files.Stats
	certs                      *certs.Status
}

func (f *redisFiles) status() (s redisFilesStatus) {
	of := func(watched *files.Watched[string]) *files.Stats {
		if watched == nil {
			return nil
		}
		stats := watched.Stats()
		return &stats
	}
	s.password, s.sentinelPassword = of(f.password), of(f.sentinelPassword)
	if f.certs != nil {
		status := f.certs.Status()
		s.certs = &status
	}
	return s
}
