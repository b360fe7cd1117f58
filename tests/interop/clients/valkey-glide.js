const { GlideClusterClient } = require("@valkey/valkey-glide");
const { answer, endpoints } = require("./common");

answer(async (access, calls) => {
  const client = await GlideClusterClient.createClient({
    addresses: endpoints(access.nodes),
    credentials: { username: access.username, password: access.password },
    requestTimeout: 60000,
    advancedConfiguration: { connectionTimeout: 60000 },
  });
  const replies = [];
  for (const { sha1, key, args } of calls) {
    replies.push(await client.customCommand(["EVALSHA", sha1, "1", key, ...args]));
  }
  client.close();
  return replies;
});
