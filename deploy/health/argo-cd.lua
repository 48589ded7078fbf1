-- Health of a StagedBindingPolicy for Argo CD: the key `resource.customizations.health.community.kubestellar.io_StagedBindingPolicy` of
-- ConfigMap `argocd-cm`. Unknown is not healthy: a policy is Healthy only if Ready is True for its current generation.
local health = { status = "Progressing", message = "waiting for the controller" }
if obj.status == nil or obj.status.conditions == nil then
  return health
end
if obj.status.observedGeneration ~= obj.metadata.generation then
  health.message = "waiting for the controller to see the last edit"
  return health
end
local found = {}
for _, condition in ipairs(obj.status.conditions) do
  found[condition.type] = condition
end
local ready, stalled = found.Ready, found.Stalled
if stalled ~= nil and stalled.status == "True" then
  return { status = "Degraded", message = stalled.message }
end
if ready == nil then
  return health
end
health.message = ready.message
if ready.status == "True" then
  health.status = "Healthy"
elseif obj.status.phase == "Paused" then
  health.status = "Suspended"
end
return health
