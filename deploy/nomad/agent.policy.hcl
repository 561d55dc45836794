# What the agent needs of Nomad, and nothing else:
#
#   nomad acl policy apply -namespace default -job setpoint-agent setpoint-agent deploy/nomad/agent.policy.hcl
#
# gives it to the job of that name. Name namespaces in place of "*" where the agent is to see
# only those. Without scale-job it can only be a shadow (--shadow).
namespace "*" {
  capabilities = ["list-scaling-policies", "read-scaling-policy", "read-job", "scale-job"]

  # The lock by which one of several agents acts (--nomad-lock). It may be left out.
  variables {
    path "setpoint/agent" {
      capabilities = ["write"]
    }
  }
}

# To look at the versions of the servers, and warn of those before 1.8.2. It may be left out.
node {
  policy = "read"
}
