//go:build linux

package edge

import "flag"

var goals = flag.Bool("goals", false, "fail where measured goals are missed; for a quiet machine")
