package serve

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/setpoint-dev/setpoint/internal/files"
	"github.com/setpoint-dev/setpoint/server/auth"
	"github.com/setpoint-dev/setpoint/server/certs"
)

// edgeCollector exports metrics of certificates, credentials and the policy, and of those for Redis. A nil part is
// unused and has no series.
type edgeCollector struct {
	certs  func() certs.Status
	auth   func() auth.Stats
	policy func() files.Stats
	signIn func() files.Stats // of the secret of the page's sign-in
	redis  func() redisFilesStatus
	// tokens and issuers report that there are files of them.
	tokens, issuers bool
}

var (
	certificateExpiry = prometheus.NewDesc("setpoint_certificate_expiry_timestamp_seconds", "Unix time at which a certificate or the first of some CAs expires: the server's, its clients' CAs, the client certificate for Redis, Redis' CAs.", []string{"certificate"}, nil)
	crlNextUpdate     = prometheus.NewDesc("setpoint_crl_next_update_timestamp_seconds", "Unix time at which the first certificate revocation list becomes outdated.", nil, nil)

	fileReloads     = prometheus.NewDesc("setpoint_file_reloads_total", "Reloads of changed files, by outcome.", []string{"file", "outcome"}, nil)
	fileReloadTime  = prometheus.NewDesc("setpoint_file_last_reload_success_timestamp_seconds", "Unix time of the last successful reload.", []string{"file"}, nil)
	fileReloadRight = prometheus.NewDesc("setpoint_file_last_reload_successful", "1 if the last reload succeeded, else 0: the previous contents stay in force and the log says why.", []string{"file"}, nil)

	authFailures    = prometheus.NewDesc("setpoint_auth_failures_total", "Failed authentications, by reason.", []string{"reason"}, nil)
	authTokens      = prometheus.NewDesc("setpoint_auth_tokens", "Entries of the tokens file, expired ones included.", nil, nil)
	authTokenExpiry = prometheus.NewDesc("setpoint_auth_token_expiry_timestamp_seconds", "Unix time at which the last token of an identity expires, of identities of the tokens file whose tokens all do.", []string{"identity"}, nil)
	authHits        = prometheus.NewDesc("setpoint_auth_jwt_cache_hits_total", "JWTs found in the cache of verified ones.", nil, nil)
	authMisses      = prometheus.NewDesc("setpoint_auth_jwt_cache_misses_total", "JWTs that were not in the cache of verified ones.", nil, nil)
	authCached      = prometheus.NewDesc("setpoint_auth_jwt_cache_entries", "Verified JWTs in the cache.", nil, nil)
	issuerFetches   = prometheus.NewDesc("setpoint_auth_issuer_fetches_total", "Fetches of an issuer's keys.", []string{"issuer"}, nil)
	issuerFailures  = prometheus.NewDesc("setpoint_auth_issuer_fetch_failures_total", "Failed fetches of an issuer's keys.", []string{"issuer"}, nil)
	issuerFetchTime = prometheus.NewDesc("setpoint_auth_issuer_last_fetch_success_timestamp_seconds", "Unix time of the last successful fetch of an issuer's keys; 0 before the first.", []string{"issuer"}, nil)
	issuerKeys      = prometheus.NewDesc("setpoint_auth_issuer_keys", "Cached keys of an issuer.", []string{"issuer"}, nil)
)

// Describe implements prometheus.Collector.
func (edgeCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		certificateExpiry, crlNextUpdate, fileReloads, fileReloadTime, fileReloadRight, authFailures, authTokens,
		authTokenExpiry, authHits, authMisses, authCached, issuerFetches, issuerFailures, issuerFetchTime, issuerKeys,
	} {
		descs <- d
	}
}

// Collect implements prometheus.Collector.
func (c edgeCollector) Collect(metrics chan<- prometheus.Metric) {
	m := edgeMetrics(metrics)
	if c.certs != nil {
		m.certs(c.certs())
	}
	if c.policy != nil {
		m.file("policy", c.policy())
	}
	if c.signIn != nil {
		m.file("ui_oidc_client_secret", c.signIn())
	}
	if c.redis != nil {
		m.redis(c.redis())
	}
	if c.auth == nil {
		return
	}
	stats := c.auth()
	if c.certs != nil {
		stats.Refused[auth.ReasonRevoked] += c.certs().Refused // at the handshake
	}
	for reason, n := range stats.Refused {
		m.counter(authFailures, n, string(reason))
	}
	if c.tokens {
		m.file("tokens", stats.Tokens)
		m.gauge(authTokens, float64(stats.KnownTokens))
		for identity, at := range stats.TokensExpire {
			m.gauge(authTokenExpiry, seconds(at), identity)
		}
	}
	if c.issuers {
		m.file("issuers", stats.OIDC)
		m.issuers(&stats)
	}
}

// edgeMetrics is where metrics go.
type edgeMetrics chan<- prometheus.Metric

func (m edgeMetrics) counter(desc *prometheus.Desc, n uint64, labels ...string) {
	m <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
}

func (m edgeMetrics) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	m <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

func (m edgeMetrics) certs(s certs.Status) {
	m.gauge(certificateExpiry, seconds(s.NotAfter), "server")
	if !s.CAsNotAfter.IsZero() {
		m.gauge(certificateExpiry, seconds(s.CAsNotAfter), "client_ca")
	}
	if !s.CRLNextUpdate.IsZero() {
		m.gauge(crlNextUpdate, seconds(s.CRLNextUpdate))
	}
	m.reloads("certificates", s.Reloads, s.Failures, s.Loaded, s.Err)
}

func (m edgeMetrics) redis(s redisFilesStatus) {
	if s.password != nil {
		m.file("redis_password", *s.password)
	}
	if s.sentinelPassword != nil {
		m.file("redis_sentinel_password", *s.sentinelPassword)
	}
	if s.certs == nil {
		return
	}
	if !s.certs.NotAfter.IsZero() {
		m.gauge(certificateExpiry, seconds(s.certs.NotAfter), "redis_client")
	}
	if !s.certs.CAsNotAfter.IsZero() {
		m.gauge(certificateExpiry, seconds(s.certs.CAsNotAfter), "redis_ca")
	}
	m.reloads("redis_certificates", s.certs.Reloads, s.certs.Failures, s.certs.Loaded, s.certs.Err)
}

func (m edgeMetrics) file(name string, s files.Stats) {
	m.reloads(name, max(1, s.Successes)-1, s.Failures, s.LastSuccess, s.Err) // the first was the start
}

func (m edgeMetrics) reloads(name string, successes, failures uint64, last time.Time, err error) {
	m.counter(fileReloads, successes, name, "success")
	m.counter(fileReloads, failures, name, "failure")
	m.gauge(fileReloadTime, seconds(last), name)
	right := 1.0
	if err != nil {
		right = 0
	}
	m.gauge(fileReloadRight, right, name)
}

// issuers has a label that the operator chooses: one value per issuer in the file.
func (m edgeMetrics) issuers(s *auth.Stats) {
	m.counter(authHits, s.CacheHits)
	m.counter(authMisses, s.CacheMisses)
	m.gauge(authCached, float64(s.Cached))
	for _, i := range s.Issuers {
		m.counter(issuerFetches, i.Fetches, i.Issuer)
		m.counter(issuerFailures, i.Failures, i.Issuer)
		m.gauge(issuerFetchTime, seconds(i.Fetched), i.Issuer)
		m.gauge(issuerKeys, float64(i.Keys), i.Issuer)
	}
}

// seconds converts a time for Prometheus; 0: none.
func seconds(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}
