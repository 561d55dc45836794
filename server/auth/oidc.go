package auth

import (
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	jose "github.com/go-jose/go-jose/v4"

	"github.com/setpoint-dev/setpoint/internal/document"
	"github.com/setpoint-dev/setpoint/internal/files"
)

// DefaultClockSkew is how much the clocks of issuers may differ from ours.
const DefaultClockSkew = 30 * time.Second

const maxClockSkew = 10 * time.Minute

// asymmetric are the algorithms that can be allowed. With a symmetric algorithm anyone who can
// verify a token can also make one, and the key is not public.
var asymmetric = []jose.SignatureAlgorithm{
	jose.RS256, jose.RS384, jose.RS512, jose.PS256, jose.PS384, jose.PS512,
	jose.ES256, jose.ES384, jose.ES512, jose.EdDSA,
}

// IssuerConfig is an entry of the file of issuers.
type IssuerConfig struct {
	// Issuer is the issuer's URL, as in its tokens and its discovery document.
	Issuer string
	// A token must have one of Audiences.
	Audiences []string
	// UsernameClaim is the claim with the caller's name, and GroupsClaim the one with
	// its groups; "": none.
	UsernameClaim, GroupsClaim string
	// Prefix precedes names of callers and groups, after "oidc:".
	Prefix string
	// Algorithms are the accepted signature algorithms.
	Algorithms []jose.SignatureAlgorithm
	// ClockSkew is how much the issuer's clock may differ from ours.
	ClockSkew time.Duration
	// CAFile has the certificates to trust for the issuer's server, PEM; "": the
	// system's. It is watched like the files of tokens and issuers.
	CAFile string
	// Insecure allows plain HTTP, to any host.
	Insecure bool
}

// parseIssuers reads a file of issuers. Relative paths in it are relative to folder.
func parseIssuers(name, folder string, data []byte) ([]IssuerConfig, error) {
	var issuers []IssuerConfig
	err := document.Read(name, data, func(root document.Value) {
		root.Map(document.Required("issuers", func(list document.Value) {
			list.List(func(_ int, v document.Value) {
				issuer := readIssuer(v, folder)
				for _, other := range issuers {
					refuseSame(v, issuer, other)
				}
				issuers = append(issuers, issuer)
			})
		}))
	})
	if err != nil {
		return nil, err
	}
	return issuers, nil
}

// refuseSame refuses issuers whose callers could pass for each other's.
func refuseSame(v document.Value, issuer, other IssuerConfig) {
	switch {
	case issuer.Issuer == other.Issuer:
		v.Refuse("is a duplicate: %s", issuer.Issuer)
	case strings.HasPrefix(issuer.Prefix, other.Prefix), strings.HasPrefix(other.Prefix, issuer.Prefix):
		v.Refuse("prefix %q and prefix %q of %s: neither may begin with the other, or callers of one issuer could pass for those of the other", issuer.Prefix, other.Prefix, other.Issuer)
	}
}

// readIssuer reads an entry. It has recorded the problems.
func readIssuer(v document.Value, folder string) IssuerConfig {
	c := IssuerConfig{UsernameClaim: "sub", Algorithms: asymmetric, ClockSkew: DefaultClockSkew}
	prefixed := false
	text := func(into *string) func(document.Value) {
		return func(v document.Value) { *into, _ = v.Text() }
	}
	v.Map(
		document.Required("issuer", text(&c.Issuer)),
		document.Required("audiences", func(v document.Value) { c.Audiences = v.Texts() }),
		document.Optional("usernameClaim", text(&c.UsernameClaim)),
		document.Optional("groupsClaim", text(&c.GroupsClaim)),
		document.Optional("prefix", func(v document.Value) {
			c.Prefix, prefixed = v.TextOrEmpty()
			if c.Prefix != "" && !validName(c.Prefix) {
				v.Refuse("must be printable text of at most %d bytes", maxName)
			}
		}),
		document.Optional("algorithms", func(v document.Value) { c.Algorithms = readAlgorithms(v) }),
		document.Optional("clockSkew", func(v document.Value) { c.ClockSkew, _ = v.Duration(maxClockSkew) }),
		document.Optional("caFile", func(v document.Value) { c.CAFile = readCAFile(v, folder) }),
		document.Optional("insecure", func(v document.Value) { c.Insecure, _ = v.Bool() }),
	)
	if !prefixed {
		c.Prefix = c.Issuer + "#"
	}
	if c.Issuer != "" {
		if problem := checkURL(c.Issuer, c.Insecure); problem != "" {
			v.Refuse("issuer: %s", problem)
		}
	}
	return c
}

func readAlgorithms(v document.Value) []jose.SignatureAlgorithm {
	var algorithms []jose.SignatureAlgorithm
	v.List(func(_ int, v document.Value) {
		text, ok := v.Text()
		algorithm := jose.SignatureAlgorithm(text)
		switch {
		case !ok:
		case slices.Contains(asymmetric, algorithm):
			algorithms = append(algorithms, algorithm)
		default:
			v.Refuse("must be one of %s (asymmetric algorithms only)", joinAlgorithms(asymmetric))
		}
	})
	return algorithms
}

func joinAlgorithms(algorithms []jose.SignatureAlgorithm) string {
	names := make([]string, len(algorithms))
	for i, algorithm := range algorithms {
		names[i] = string(algorithm)
	}
	return strings.Join(names, ", ")
}

func readCAFile(v document.Value, folder string) string {
	path, ok := v.Text()
	if !ok {
		return ""
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(folder, path)
	}
	if _, err := (files.TLS{CAFile: path}).Authorities(); err != nil {
		v.Refuse("%v", err)
	}
	return path
}

// checkURL returns what is wrong with the address of an issuer or of its keys; "":
// nothing.
func checkURL(text string, insecure bool) string {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Host == "", u.Scheme != "https" && u.Scheme != "http":
		return "must be a URL such as https://login.example.com"
	case u.User != nil, u.RawQuery != "", u.Fragment != "":
		return "must be a URL without user, query and fragment"
	case u.Scheme == "http" && !insecure && !OnLoopback(u.Hostname()):
		return "must be an https URL: over plain http anybody between could put in keys (insecure: true allows it)"
	}
	return ""
}

// OnLoopback reports whether a URL with that host stays on its machine.
func OnLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}
