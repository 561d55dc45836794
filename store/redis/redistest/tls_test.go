//go:build unix

package redistest

import (
	"crypto/tls"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestTLSRefusesClientsWithoutCertificate(t *testing.T) {
	t.Parallel()
	files := NewTLS(t)
	s := Start(t, Config{TLS: files})
	if want := "rediss://" + s.Addr(); s.URL() != want {
		t.Errorf("URL %s, want %s", s.URL(), want)
	}
	set(t, s.Client(t), "key", "value")
	s.Restart()

	strangers := NewTLS(t).Config()
	strangers.RootCAs = files.Config().RootCAs
	trusting := &tls.Config{RootCAs: files.Config().RootCAs}
	for name, tc := range map[string]struct {
		config  *tls.Config
		refused bool
	}{
		"its own certificate":                {files.Config(), false},
		"no certificate":                     {trusting, true},
		"a certificate of another authority": {strangers, true},
		"no trust in the authority":          {NewTLS(t).Config(), true},
		"no TLS":                             {nil, true},
	} {
		client := redis.NewClient(&redis.Options{Addr: s.Addr(), TLSConfig: tc.config, MaxRetries: -1, DialerRetries: 1})
		if err := client.Ping(t.Context()).Err(); (err != nil) != tc.refused {
			t.Errorf("a client with %s: %v, want it refused: %v", name, err, tc.refused)
		}
		client.Close()
	}
}
