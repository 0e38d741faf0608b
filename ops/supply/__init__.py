"""What `make audit` and `make sbom` run: questions about requirements.lock. It imports nothing of the product.

Read `lock_file` first.
"""
