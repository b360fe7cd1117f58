"""What an operator orders: deploy, destroy, failover, fence, resize, scripts, status, doctor.

Pure: `script_drift`.
"""
