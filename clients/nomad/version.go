package nomad

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/hashicorp/nomad/api"
	"go.uber.org/zap"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/setpoint-dev/setpoint/clients/agent"
	"github.com/setpoint-dev/setpoint/internal/printable"
)

// versionEvery is how often the servers' versions are read: servers may be replaced one by one.
const versionEvery = 10 * time.Minute

// conditional is the first version that checks the JobModifyIndex of a count. Older servers
// ignore it, so that a count may overwrite one written after the job was read.
var conditional = version.MustParseGeneric("1.8.2")

// checkVersion checks the versions of the region's servers, if that was not done recently. Not
// being able to read them is no failure: it takes a capability that nothing else needs.
func (p *Platform) checkVersion(ctx context.Context) {
	if !p.versioned.IsZero() && time.Since(p.versioned) < versionEvery {
		return
	}
	p.versioned = time.Now()
	ctx, cancel := context.WithTimeout(ctx, p.options.ReadTimeout)
	defer cancel()
	warning, err := OldServers(ctx, p.client, p.options.Region)
	if ctx.Err() != nil && err != nil {
		p.versioned = time.Time{}
		return
	}
	if err != nil {
		if statusOf(err) != http.StatusForbidden {
			p.versioned = time.Time{} // read them again with the next list
		}
		p.warnOfServers("", fmt.Sprintf("their versions are not known (the token needs node read); before %s they don't compare what a count is conditional on: %s", conditional, agent.Shorten(err.Error())))
		return
	}
	p.warnOfServers(warning, warning)
}

// OldServers returns a warning of servers of the region, empty for that of the agent that is asked, that write counts
// unconditionally; "": there are none.
func OldServers(ctx context.Context, client *api.Client, region string) (warning string, err error) {
	var servers api.ServerMembers
	if _, err := client.Raw().Query("/v1/agent/members", &servers, (&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return "", err
	}
	region = cmp.Or(region, servers.ServerRegion) // others are asked for by its members, too
	var old []string
	for _, m := range servers.Members {
		if m == nil || m.Status != "alive" || m.Tags["region"] != region {
			continue
		}
		if v, err := version.ParseGeneric(m.Tags["build"]); err == nil && v.LessThan(conditional) {
			old = append(old, fmt.Sprintf("%s is %s", m.Name, m.Tags["build"]))
		}
	}
	if len(old) == 0 {
		return "", nil
	}
	return fmt.Sprintf("Nomad's servers are older than %s (%s) and don't compare what a count is conditional on: one that is written at the same time as somebody else's overwrites that",
		conditional, printable.Some(old, 5)), nil
}

// warnOfServers sets a warning for each group, and logs a line if it changed.
func (p *Platform) warnOfServers(warning, line string) {
	p.outdated.Store(&warning)
	if line != "" && line != p.saidOfServers {
		p.options.Log.Warn("Nomad's servers", zap.String("problem", line))
	}
	p.saidOfServers = line
}
