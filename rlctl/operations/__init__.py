"""Operator commands: deploy, destroy, failover, fence, resize, scripts, status, doctor, env, unlock.

Pure: `script_drift`.
"""
