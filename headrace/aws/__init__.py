"""AWS, whichever service is called: credentials, what its error codes mean, and its services' models.

aws_errors       codes of S3, SQS and STS as classes of `headrace.model.errors`; pure
store_answers    what each answer has, to be S3's and of use; pages that advance; an object as an entry of a
                 listing, or its headers, tell of it
aws_credentials  the chain of providers, roles among them, with one refresh for all threads, and the
                 descriptions of services that botocore loads, read once
"""
